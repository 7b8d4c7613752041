"""Run the checks that need no server: format, lint, types, import contracts and tests.

`python -m hack.check` runs two at a time, and prints a line for each check that passes and the
whole output of each check that fails.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

CORE = "tests/unit/core"

# The longest tests come first, and types before them: without its cache that check takes longest.
TESTS: Mapping[str, Sequence[str]] = {
    "units": ("pytest", "-q", "tests/unit", f"--ignore={CORE}"),
    "stage": ("pytest", "-q", "tests/stage", "tests/property", "tests/compat"),
    "replica": ("pytest", "-q", "tests/replica"),
    "core": ("pytest", "-q", CORE),
}
NOT_MEASURED = {"stage"}
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


def passed(
    commands: Mapping[str, Sequence[str]], *, at_once: int = 2, whole: bool = False
) -> bool:
    """Run tools of the virtual environment side by side, also after a failure.

    Prints a line for each at its end, and its output if it failed.

    Args:
        commands: Command lines by name, started in this order.
        at_once: How many run at a time.
        whole: Print the outputs of those that pass, too.
    """
    failed = list[str]()
    with ThreadPoolExecutor(max_workers=at_once) as pool:
        names = {pool.submit(_run, command): name for name, command in commands.items()}
        try:
            for done in as_completed(names):
                name, (code, seconds, output) = names[done], done.result()
                failed += [name] * (code != 0)
                if code or whole:
                    print(f"\n--- {name}\n{output}\n", flush=True)
                verdict = "FAILED" if code else output.rpartition("\n")[2]
                print(f"{name:18} {seconds:5.1f} s  {verdict}", flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if failed:
        print(f"error: {', '.join(failed)} failed, see above", file=sys.stderr)
    return not failed


def _run(command: Sequence[str]) -> tuple[int, float, str]:
    """Return the exit code, the seconds, and the output of a tool."""
    started = time.monotonic()
    program = Path(sys.executable).parent / command[0]
    done = subprocess.run(
        [program, *command[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=os.environ | {"PYTHONHASHSEED": "0"},  # the order of sets is part of each play
    )
    return done.returncode, time.monotonic() - started, done.stdout.strip()


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
    return not passed({**CHECKS, **tests(measure=parser.parse_args().coverage)})


if __name__ == "__main__":
    sys.exit(main())
