"""Compare what is shown of a ring with an observer: `python -m tests.long.visibility`."""

import argparse
import sys

from tests.long.visibility.play import play
from tests.long.visibility.report import report


def main() -> int:
    """Return 1 if something was not shown, or was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.long.visibility", description=__doc__)
    parser.add_argument("--quiet-minutes", type=float, default=1.0, help="in the end")
    outcome = play(parser.parse_args().quiet_minutes * 60)
    print(report(outcome))  # noqa: T201 - what it is for
    return int(bool(outcome.problems))


if __name__ == "__main__":
    sys.exit(main())
