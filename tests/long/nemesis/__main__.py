"""Play a nemesis run: `python -m tests.long.nemesis --minutes 10 --seed 1`."""

import argparse
import sys

from tests.long.nemesis.judging import judge
from tests.long.nemesis.play import LEASE_SECONDS, play
from tests.long.nemesis.report import report


def main() -> int:
    """Return 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.long.nemesis", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=20.0, help="requests of users per second")
    parser.add_argument("--objects", type=int, default=300, help="that are there all the time")
    given = parser.parse_args()
    played = play(given.minutes * 60, given.seed, rate=given.rate, population=given.objects)
    verdict = judge(played.trace)
    print(report(played, verdict, LEASE_SECONDS))  # noqa: T201 - what it is for
    return int(bool(verdict.problems(2 * LEASE_SECONDS + 4)))


if __name__ == "__main__":
    sys.exit(main())
