"""Run the checks that need no server: format, lint, types, import contracts and tests.

`python -m hack.check` runs two at a time, and prints a line for each check that passes and the
whole output of each check that fails.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

CORE = "tests/unit/core"

# The longest tests come first, so that no processor is idle at the end.
TESTS: Mapping[str, Sequence[str]] = {
    "units": ("pytest", "-q", "tests/unit", f"--ignore={CORE}"),
    "replica": ("pytest", "-q", "tests/replica"),
    "core": ("pytest", "-q", CORE),
    "properties": ("pytest", "-q", "tests/property", "tests/contract"),
    "stage": ("pytest", "-q", "tests/stage"),
    "compat": ("pytest", "-q", "tests/compat"),
}
NOT_MEASURED = {"compat", "properties", "stage"}
"""Tests without a measurement of coverage.

A measurement makes them up to three times slower, and they cover no line that the others do not.
"""
QUICK = ("-m", "not slow", "--hypothesis-profile=quick")
"""Options of pytest in `make check`; `make test` measures coverage and tries all examples."""
CHECKS: Mapping[str, Sequence[str]] = {
    "types": ("mypy",),
    "imports": ("lint-imports",),
    "lint": ("ruff", "check", "."),
    "format": ("ruff", "format", "--check", "."),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a check."""

    passed: bool
    seconds: float
    output: str


def run(command: Sequence[str]) -> Outcome:
    """Run a tool of the virtual environment of this Python."""
    started = time.monotonic()
    program = Path(sys.executable).parent / command[0]
    done = subprocess.run(
        [program, *command[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Outcome(
        passed=done.returncode == 0,
        seconds=time.monotonic() - started,
        output=done.stdout.strip(),
    )


def side_by_side(
    commands: Mapping[str, Sequence[str]],
    *,
    at_once: int = 2,
    idle: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Iterator[tuple[str, Outcome]]:
    """Run tools concurrently, started in order; yield the name and outcome of each at its end.

    If the caller ends early or is interrupted, the remaining tools do not start.

    Args:
        commands: Command lines by name.
        at_once: How many of `commands` run at a time.
        idle: More command lines by name, of tools that hardly use a processor; one of them runs at
            a time, in addition to `commands`.
    """
    pools = ThreadPoolExecutor(max_workers=at_once), ThreadPoolExecutor(max_workers=1)
    try:
        names = {
            pool.submit(run, command): name
            for pool, lane in zip(pools, (commands, idle), strict=True)
            for name, command in lane.items()
        }
        for done in as_completed(names):
            yield names[done], done.result()
    finally:
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)


def tests(*, measure: bool) -> dict[str, Sequence[str]]:
    """Return the commands of the tests: all tests with coverage, or only the quick ones."""
    if not measure:
        return {name: (*command, *QUICK) for name, command in TESTS.items()}
    prefix = ("coverage", "run", "-m")
    return {
        name: command if name in NOT_MEASURED else (*prefix, *command)
        for name, command in TESTS.items()
    }


def main() -> int:
    """Run all checks; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m hack.check", description=__doc__)
    parser.add_argument("--coverage", action="store_true", help="try all, measure what is covered")
    measure: bool = parser.parse_args().coverage
    checks = {**tests(measure=measure), **CHECKS}
    failed = []
    for name, outcome in side_by_side(checks):
        if not outcome.passed:
            failed.append(name)
            print(f"\n--- {name}\n{outcome.output}\n", flush=True)
        last_line = outcome.output.rpartition("\n")[2] if outcome.passed else "FAILED"
        print(f"{name:11} {outcome.seconds:5.1f} s  {last_line}", flush=True)
    if failed:
        print(f"error: {', '.join(failed)} failed, see above", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
