"""Run the tests that need programs of others, or minutes, part by part.

`python -m hack.server_tests` runs all parts, `python -m hack.server_tests outages` one alone.  Two
run at a time, since most of them wait for clocks more than they work; those that measure times
come last, each with the machine to itself.  What a part says is printed when it has ended.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hack.check import Outcome, run, side_by_side

E2E = Path("tests/e2e")
TIMED = (
    "certificates", "ceilings", "clocks", "exceptions", "goshard", "main_job", "movement_control",
    "replicas", "rolling_upgrade",
)  # fmt: skip
"""What they assert of times holds on a machine that does nothing else."""


def parts() -> dict[str, Sequence[str]]:
    """Return pytest's arguments by part; each test that `hack.check` leaves out is in one."""
    files = sorted(E2E.glob("test_*.py"))
    return {
        "integration": ("-m", "(apiserver or helm) and not e2e"),
        **{path.stem.removeprefix("test_"): (str(path),) for path in files},
        # They take what processors are idle, so they come where others only wait.
        "mutants": ("-m", "mutants"),
    }


def outcomes(commands: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Outcome]]:
    """Run the parts and yield how each has ended, by its name."""
    yield from side_by_side({n: command for n, command in commands.items() if n not in TIMED})
    for name in TIMED:
        if name in commands:
            yield name, run(commands[name])


def commands_for(arguments: Sequence[str] | None = None) -> dict[str, Sequence[str]]:
    """Return the commands of the parts that the command line names, of all if it names none."""
    known = parts()
    parser = argparse.ArgumentParser(prog="python -m hack.server_tests", description=__doc__)
    # Python 3.11 refuses choices for arguments of which there are none.
    parser.add_argument("part", nargs="*", metavar="PART", help=", ".join(known))
    parser.add_argument("--coverage", action="store_true", help="measure what the tests cover")
    parsed = parser.parse_args(arguments)
    wanted: list[str] = parsed.part or list(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        parser.error(f"there is no part {unknown[0]}: name some of {', '.join(known)}")
    prefix = ("coverage", "run", "-m") if parsed.coverage else ()
    return {name: (*prefix, "pytest", "-q", *known[name]) for name in wanted}


def main() -> int:
    """Return 1 when a part failed; all are run in any case."""
    failed = []
    for name, outcome in outcomes(commands_for()):
        if not outcome.passed:
            failed.append(name)
        verdict = "passed" if outcome.passed else "FAILED"
        print(f"--- {name}\n{outcome.output}")
        print(f"--- {name} {verdict} after {outcome.seconds:.0f} s\n", flush=True)
    if failed:
        print(f"error: {', '.join(failed)} failed, see above", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
