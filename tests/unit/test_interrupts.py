"""Tests that interrupt a process work wherever they are run."""

import subprocess
import sys

IN_THE_BACKGROUND = """
import signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
import tests.conftest
subprocess.run([sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGINT))"])
"""
"""What a shell does for `make test &`, before a test starts another program."""


def test_what_a_test_starts_can_be_interrupted_though_the_tests_run_in_the_background() -> None:
    command = [sys.executable, "-c", IN_THE_BACKGROUND]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert "default_int_handler" in done.stdout
