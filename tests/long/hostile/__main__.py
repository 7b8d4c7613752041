"""Play the hostile run: `python -m tests.long.hostile --minutes 10`."""

import argparse
import sys

from tests.long.hostile.judging import judge
from tests.long.hostile.play import PHASES, play
from tests.long.hostile.report import as_json, table


def main() -> int:
    """Return 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.long.hostile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=2.5, help="of all phases together")
    parser.add_argument("--phase", action="append", default=[], help="only this one, and quiet")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    count = len(arguments.phase) + 1 if arguments.phase else len(PHASES)
    played = play(arguments.minutes * 60 / count, arguments.phase)
    rows = judge(played.record)
    text = as_json(played, rows) if arguments.json else table(played, rows)
    print(text)  # noqa: T201 - what it is for
    return int(any(row.problems for row in rows))


if __name__ == "__main__":
    sys.exit(main())
