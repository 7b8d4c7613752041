"""Run the tests that need other programs, or minutes, in several parts.

`python -m hack.server_tests` runs all parts of `make test`, `python -m hack.server_tests outages`
only the part `outages`, and `python -m hack.server_tests --long` the parts of `make test-long`.
Several parts run at a time, because most of them mainly wait for timers; the longest start first.
One of the parts that hardly use a processor runs in addition.  The output of a part is printed at
its end.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.check import Outcome, run, side_by_side

AT_ONCE = 3
"""The number of parts that run at a time, for two processors."""
E2E, LONG = Path("tests/e2e"), Path("tests/long")
INTEGRATION = "tests/integration"
COMMANDS = tuple(
    f"{INTEGRATION}/test_{name}.py"
    for name in ("cli", "operations", "operate_docs", "cleanup", "typed_docs")
)
"""Tests that start the program `sharder` again and again."""
LONG_SCENES = ("certificates", "outages", "rollout")
"""Names of the files in E2E that also have tests of minutes: a part of `make test-long` each."""
IDLE = {"refused_starts"}
"""Parts that mainly wait: they run in addition to the other parts."""
ALONE = {"hostile", "nemesis"}
"""Parts of `make test-long` that run alone, because they measure times under load."""
SECONDS = {
    "hostile": 560, "long_rollout": 400, "nemesis": 310, "long_scenes": 250,
    "integration": 200, "long_certificates": 200, "service": 190, "commands": 150,
    "movement_control": 150, "rebalancing": 150, "ceilings": 150, "long_outages": 150,
    "bench": 140, "kopf": 120, "main_job": 110, "certificates": 100, "goshard": 100,
    "orphans": 100, "console_page": 100, "outages": 95, "attacks": 90, "attacks_bite": 90,
    "restore": 85, "rollout": 80, "refused_starts": 78, "replicas": 75, "rolling_upgrade": 70,
    "tutorial": 45, "typed": 40, "migration": 37, "chart": 35, "docs_site": 30,
    "rings_apart": 22,
}  # fmt: skip
"""The approximate duration of each part; an unknown part starts first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Tests that run in one process of pytest."""

    pytest: Sequence[str]
    """The arguments of pytest."""
    alone: bool = False
    """Whether the part runs alone, after all others."""


def parts() -> dict[str, Part]:
    """Return the parts of `make test`: the tests that neither are long nor run in `make check`."""
    others = (INTEGRATION, *(f"--ignore={path}" for path in COMMANDS))
    all_parts = {
        "service": Part(pytest=("-m", "service and not long", INTEGRATION)),
        "commands": Part(pytest=("-m", "not long", *COMMANDS)),
        "integration": Part(pytest=("-m", "not (service or long)", *others)),
        "attacks": Part(pytest=("tests/attacks",)),
        "chart": Part(pytest=("tests/chart",)),
    }
    for path in sorted(E2E.glob("test_*.py")):
        all_parts[_name(path)] = Part(pytest=("-m", "not long", str(path)))
    return _longest_first(all_parts)


def long_parts() -> dict[str, Part]:
    """Return the parts of `make test-long`, which runs no test of `make test`."""
    scenes = {name: str(E2E / f"test_{name}.py") for name in LONG_SCENES}
    others = (str(E2E), INTEGRATION, *(f"--ignore={scene}" for scene in scenes.values()))
    all_parts = {
        "long_scenes": Part(pytest=("-m", "long", *others)),
    }
    for name, scene in scenes.items():
        all_parts[f"long_{name}"] = Part(pytest=("-m", "long", scene))
    for path in sorted(LONG.glob("test_*.py")):
        all_parts[_name(path)] = Part(pytest=(str(path),), alone=_name(path) in ALONE)
    return _longest_first(all_parts)


def outcomes(wanted: Mapping[str, Part]) -> Iterator[tuple[str, Outcome]]:
    """Run the parts; yield the name and outcome of each at its end."""
    commands = {name: ("pytest", "-q", *part.pytest) for name, part in wanted.items()}
    together = {name: commands[name] for name, part in wanted.items() if not part.alone}
    idle = {name: together.pop(name) for name in list(together) if name in IDLE}
    yield from side_by_side(together, at_once=AT_ONCE, idle=idle)
    for name, part in wanted.items():
        if part.alone:
            yield name, run(commands[name])


def parse(arguments: Sequence[str] | None = None) -> dict[str, Part]:
    """Return the parts that the command line names; without names all, of `--long` or not."""
    parser = argparse.ArgumentParser(prog="python -m hack.server_tests", description=__doc__)
    every = parts() | long_parts()
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
    wanted = parse()
    failed, began = list[str](), time.monotonic()
    for name, outcome in outcomes(wanted):
        if not outcome.passed:
            failed.append(name)
        verdict = "passed" if outcome.passed else "FAILED"
        print(f"--- {name}\n{outcome.output}")
        print(f"--- {name} {verdict} after {outcome.seconds:.0f} s\n", flush=True)
    print(f"{len(wanted)} parts took {time.monotonic() - began:.0f} s")
    if failed:
        print(f"error: {', '.join(failed)} failed, see above", file=sys.stderr)
    return 1 if failed else 0


def _longest_first(all_parts: Mapping[str, Part]) -> dict[str, Part]:
    return dict(sorted(all_parts.items(), key=lambda part: -SECONDS.get(part[0], sys.maxsize)))


def _name(path: Path) -> str:
    return path.stem.removeprefix("test_")


if __name__ == "__main__":
    sys.exit(main())
