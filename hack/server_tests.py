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
TIMED = ("ceilings", "main_job", "replicas")
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


def main() -> int:
    """Return 1 when a part failed; all are run in any case."""
    known = parts()
    parser = argparse.ArgumentParser(prog="python -m hack.server_tests", description=__doc__)
    parser.add_argument("part", nargs="*", choices=known, metavar="PART", help=", ".join(known))
    parser.add_argument("--coverage", action="store_true", help="measure what the tests cover")
    arguments = parser.parse_args()
    wanted: Sequence[str] = arguments.part or tuple(known)
    prefix = ("coverage", "run", "-m") if arguments.coverage else ()
    failed = []
    for name, outcome in outcomes({n: (*prefix, "pytest", "-q", *known[n]) for n in wanted}):
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
