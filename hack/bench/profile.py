"""Flame graphs of the sharder: the CPU time of each function, by its callers."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

SAMPLER: Final = Path(__file__).parent / "sampler"
WIDTH, HEIGHT = 1_600, 16
"""The width of the picture, and the height of a frame in it, in pixels."""
COLOURS: Final = ("#f4a582", "#fddbc7", "#d1e5f0", "#92c5de")
LEAST: Final = 0.002
"""A frame with a smaller share of all samples is left out."""


@contextmanager
def profiling(directory: Path) -> Iterator[None]:
    """Sample the sharders that start while the block runs, and write `flames.svg`."""
    directory.mkdir(parents=True, exist_ok=True)
    before = dict(os.environ)
    paths = filter(None, (str(SAMPLER), before.get("PYTHONPATH")))
    os.environ |= {"PYTHONPATH": os.pathsep.join(paths), "BENCH_PROFILE": str(directory)}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
    stacks = Counter[str]()
    for file in directory.glob("*.folded"):
        for line in file.read_text().splitlines():
            stack, _, seen = line.rpartition(" ")
            stacks[stack] += int(seen)
        file.unlink()
    (directory / "flames.svg").write_text(flames(stacks))


@dataclass
class Frame:
    """A function that the frames above it have called."""

    seen: int = 0
    called: dict[str, "Frame"] = field(default_factory=dict)


def flames(stacks: Counter[str]) -> str:
    """Return a picture in which the width of a frame is its share of the samples."""
    root = Frame()
    for stack, seen in stacks.items():
        frame = root
        frame.seen += seen
        for name in stack.split(";"):
            frame = frame.called.setdefault(name, Frame())
            frame.seen += seen
    boxes = list(drawn(root, root.seen))
    height = HEIGHT * (1 + max((depth for depth, _ in boxes), default=0))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        'font-family="monospace" font-size="11">\n' + "\n".join(b for _, b in boxes) + "\n</svg>\n"
    )


def drawn(
    above: Frame, total: int, depth: int = 0, left: float = 0.0
) -> Iterator[tuple[int, str]]:
    """Yield the boxes of the functions that a frame called, widest first, with their depths."""
    for name, frame in sorted(above.called.items(), key=lambda each: -each[1].seen):
        share = frame.seen / total
        if share < LEAST:
            return
        width, top = share * WIDTH, depth * HEIGHT
        shown = escape(name[-int(width / 6.8) :]) if width > 30 else ""
        colour = COLOURS[len(name.partition(".")[0]) % len(COLOURS)]
        yield (
            depth,
            f'<g><title>{escape(name)} {share:.1%}</title><rect x="{left:.1f}" y="{top}" '
            f'width="{width:.1f}" height="{HEIGHT - 1}" fill="{colour}"/>'
            f'<text x="{left + 2:.1f}" y="{top + 12}">{shown}</text></g>',
        )
        yield from drawn(frame, total, depth + 1, left)
        left += width
