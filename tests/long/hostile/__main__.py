"""Play the hostile run: `python -m tests.long.hostile --minutes 10`."""

import argparse
import sys

from tests.long.hostile.play import ATTACKS, play


def main() -> int:
    """Return 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.long.hostile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.5, help="of all phases together")
    parser.add_argument("--phase", action="append", default=[], help="only this one, and quiet")
    arguments = parser.parse_args()
    count = len(arguments.phase) + 1 if arguments.phase else len(ATTACKS)
    rows = play(arguments.minutes * 60 / count, arguments.phase)
    for row in rows:
        print(row, row.problems(rows[0]))  # noqa: T201 - what it is for
    return int(any(row.problems(rows[0]) for row in rows))


if __name__ == "__main__":
    sys.exit(main())
