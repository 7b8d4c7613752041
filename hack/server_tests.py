"""Run the tests that need other programs, or minutes, in several parts.

`python -m hack.server_tests` runs all parts of `make test`, `python -m hack.server_tests kopf`
only the part `kopf`, and `python -m hack.server_tests --long` the parts of `make test-long`.
Several parts run at a time, because most of them mainly wait for timers; the longest start first.
The output of a part is printed at its end.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hack.check import passed

AT_ONCE = 3
"""The number of parts that run at a time, for two processors."""
E2E, LONG = Path("tests/e2e"), Path("tests/long")
INTEGRATION = "tests/integration"
COMMANDS = (f"{INTEGRATION}/test_commands.py", f"{INTEGRATION}/test_typed_docs.py")
"""Tests that start the program `sharder` again and again."""
FIRST = ("main_job", "integration", "service", "commands", "kopf", "migration")
"""The longest parts of `make test`, in this order."""
ALONE = ("chart_installed", "hostile", "nemesis", "upgrade")
"""Parts of `make test-long` that run alone, because they measure times under load."""

Parts = Mapping[str, Sequence[str]]
"""Arguments of pytest by the name of a part."""


def parts() -> Parts:
    """Return the parts of `make test`: the tests that neither are long nor run in `make check`."""
    others = (INTEGRATION, *(f"--ignore={path}" for path in COMMANDS))
    known = {
        "service": ("-m", "service and not long", INTEGRATION),
        "commands": ("-m", "not long", *COMMANDS),
        "integration": ("-m", "not (service or long)", *others),
        "attacks": ("tests/attacks",),
        "chart": ("tests/chart",),
        **{_name(path): ("-m", "not long", str(path)) for path in sorted(E2E.glob("test_*.py"))},
    }
    return {name: known[name] for name in (*filter(known.get, FIRST), *known)}


def long_parts() -> Parts:
    """Return the parts of `make test-long`, which runs no test of `make test`."""
    files = {_name(path): (str(path),) for path in sorted(LONG.glob("test_*.py"))}
    return {"long_scenes": ("-m", "long", str(E2E), INTEGRATION), **files}


def parse(arguments: Sequence[str] | None = None) -> Parts:
    """Return the parts that the command line names; without names all, of `--long` or not."""
    parser = argparse.ArgumentParser(prog="python -m hack.server_tests", description=__doc__)
    every = {**parts(), **long_parts()}
    # Without `choices`: with them argparse of Python 3.11 rejects an empty list of arguments.
    parser.add_argument("part", nargs="*", metavar="PART", help=", ".join(every))
    parser.add_argument("--long", action="store_true", help="run the parts of `make test-long`")
    parsed = parser.parse_args(arguments)
    unknown = [name for name in parsed.part if name not in every]
    if unknown:
        parser.error(f"there is no part {unknown[0]}: name some of {', '.join(every)}")
    named = {name: every[name] for name in parsed.part}
    return named or (long_parts() if parsed.long else parts())


def main() -> int:
    """Run the parts, also after a failure; return 1 if one failed."""
    commands = {name: ("pytest", "-q", *part) for name, part in parse().items()}
    alone = {name: commands.pop(name) for name in ALONE if name in commands}
    together = passed(commands, at_once=AT_ONCE, whole=True)
    return not (passed(alone, at_once=1, whole=True) and together)


def _name(path: Path) -> str:
    return path.stem.removeprefix("test_")


if __name__ == "__main__":
    sys.exit(main())
