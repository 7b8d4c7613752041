"""Run rows of the benchmark, and write a report.

`python -m hack.bench` runs all rows, `python -m hack.bench ROW…` some.  With the word `quick`,
each row only shows that it works.  Progress goes to standard error.  The report, on standard
output, also has the rows of earlier runs, whose samples are kept in a directory.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from hack.bench.report import Result, markdown
from hack.bench.row import Row, Sample, Scale
from hack.bench.rows import admission, moves
from hack.bench.rows import load as websites

ROWS: Final = {row.name: row for row in (*websites.ROWS, *admission.ROWS, moves.ROW)}
USUAL: Final = [name for name in ROWS if "--" not in name]
FLAGS: Final = [name.removeprefix("load ") for name in ROWS if "--" in name]
QUICK: Final = "quick"

ROOT: Final = Path(__file__).parents[2]


async def measured(row: Row, scale: Scale) -> Sequence[Sample]:
    """Run a row, and return its samples."""
    began, samples = time.monotonic(), list[Sample]()
    async for sample in row.samples(scale):
        samples.append(sample)
        told = f"{row.name}: {sample.case} {sample.size or ''}"
        print(f"{time.monotonic() - began:4.0f} s {told}", file=sys.stderr, flush=True)
    return samples


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m hack.bench", description=__doc__)
    parser.add_argument("row", nargs="*", metavar="ROW", help=", ".join([QUICK, *USUAL]))
    parser.add_argument("--to", type=Path, metavar="DIRECTORY", help="default: build/bench")
    parser.add_argument(
        "--against",
        default="",
        metavar="WHAT",
        help="another sharder: the URL of its ring, for reviews; for load another checkout's "
        "folder, or a command that gets --config FILE",
    )
    load = parser.add_argument_group("load")
    for flag in FLAGS:
        load.add_argument(flag, dest="flags", action="append_const", const=flag, default=[])
    load.add_argument("--rights", choices=["original"], default="", help="list and patch alone")
    load.add_argument("--namespaces", type=int, default=0, metavar="N")
    load.add_argument("--minutes", type=float, default=4.0, metavar="N")
    load.add_argument("--rounds", type=int, default=3, metavar="N")
    load.add_argument("--only", action="append", default=[], metavar="CASE")
    return parser


def parse(arguments: Sequence[str] | None = None) -> tuple[Sequence[Row], Scale]:
    """Return what the command line asks for."""
    parsed = parser().parse_intermixed_args(arguments)
    named = [name for name in parsed.row if name not in (QUICK, "load" * bool(parsed.flags))]
    named += [f"load {flag}" for flag in parsed.flags]
    unknown = [name for name in named if name not in ROWS]
    if unknown:
        parser().error(f"there is no row {unknown[0]}: name some of {', '.join(USUAL)}")
    quick = QUICK in parsed.row
    scale = Scale(
        quick=quick,
        against=parsed.against,
        rights=parsed.rights,
        namespaces=parsed.namespaces,
        minutes=parsed.minutes,
        rounds=parsed.rounds,
        only=parsed.only,
        directory=parsed.to or ROOT / ("build/bench/quick" if quick else "build/bench"),
    )
    return [ROWS[n] for n in named or USUAL], scale


def main() -> int:
    """Run the rows, then print the report and keep it beside the samples."""
    rows, scale = parse()
    directory = scale.directory
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "samples.json"
    known = dict[str, Sequence[Sample]]()
    for row in rows:  # one after the other, since each needs the machine for itself
        samples = asyncio.run(measured(row, scale))
        if file.exists():
            known = msgspec.json.decode(file.read_bytes(), type=dict[str, Sequence[Sample]])
        now = {(sample.case, sample.size) for sample in samples}
        before = known.get(row.name, ())
        known[row.name] = [*(s for s in before if (s.case, s.size) not in now), *samples]
        file.write_bytes(msgspec.json.format(msgspec.json.encode(known)))
    text = markdown([Result(row, known[name]) for name, row in ROWS.items() if name in known])
    (directory / "report.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
