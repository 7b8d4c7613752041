"""Play a nemesis run and judge it: `python -m tests.long.nemesis --minutes 10 --seed 1`.

The exit code is 1 if something was wrong.
"""

import argparse
import sys

from sharder.core.api.ring import StrategyName
from tests.history.judging import judge
from tests.long.nemesis.play import Played, play
from tests.long.nemesis.report import report
from tests.long.nemesis.stage import LONGEST_SECONDS, Setup
from tests.stage.mutants import MUTANTS


def main() -> int:
    """Return 1 if something was wrong; with a deliberate bug, if nothing was."""
    given = _parsed()
    played = play(_setup(given))
    verdict = judge(played.trace)
    wrong = verdict.problems(LONGEST_SECONDS)
    print(report(played, verdict, wrong))  # noqa: T201 - what it is for
    if played.setup.mutant:
        print(_found(played, wrong))  # noqa: T201
        return int(not wrong)
    return int(bool(wrong))


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.long.nemesis", description=__doc__)
    default = Setup()
    strategies = [name.value for name in StrategyName if name is not StrategyName.CUSTOM]
    parser.add_argument("--minutes", type=float, default=default.minutes)
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--strategy", choices=strategies, default=default.strategy.value)
    parser.add_argument(
        "--fence",
        action=argparse.BooleanOptionalAction,
        help="whether the API server enforces the ring's fence; by default, unless there is a bug",
    )
    parser.add_argument(
        "--rate", type=float, default=default.rate, help="requests of users per second"
    )
    parser.add_argument(
        "--objects", type=int, default=default.objects, help="that are there all the time"
    )
    parser.add_argument(
        "--mutant", choices=sorted(MUTANTS), default="", help="play with a deliberate bug"
    )
    return parser.parse_args()


def _setup(given: argparse.Namespace) -> Setup:
    return Setup(
        seed=given.seed,
        minutes=given.minutes,
        strategy=StrategyName(given.strategy),
        fence=not given.mutant if given.fence is None else given.fence,
        rate=given.rate,
        objects=given.objects,
        mutant=given.mutant,
    )


def _found(played: Played, wrong: list[str]) -> str:
    bug = f"the bug {played.setup.mutant}"
    if not wrong:
        return f"{bug} was NOT found"
    after = f"after {played.found_after:.0f} s" if played.found_after < float("inf") else "at rest"
    return f"{bug} was found {after}: {wrong[0]}"


if __name__ == "__main__":
    sys.exit(main())
