"""Compute one run: the packed problem on standard input, the outcome on standard output."""

import sys

from sharder.core.rebalance.packed import computed

sys.stdout.buffer.write(computed(sys.stdin.buffer.read()))
