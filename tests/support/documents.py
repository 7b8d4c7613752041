"""The documents of the repository, and what stands in their fenced blocks."""

import re
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import override

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)

OF_PYTHON = ("process_", "python_")
"""How the metrics of all programs in Python begin, which have no rows."""

_METRIC = re.compile(
    r"^- `(\w+)(?:\{(.*?)\})?`(?: (histogram))?: (.*?)(?:\. \*\*(.*)\*\*)?$", re.MULTILINE
)
_FENCE = re.compile(r"^```(?P<language>[a-z]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block."""

    document: Path
    line: int
    text: str

    @override
    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def read(document: Path) -> str:
    """Return the text of a document, named from the root of the repository."""
    return (ROOT / document).read_text()


def prose(document: Path) -> str:
    """Return the text without its fenced blocks."""
    return _FENCE.sub("", read(document))


def blocks(language: str) -> list[Block]:
    """Return all blocks of a language, in order."""
    return [
        Block(document, text.count("\n", 0, found.start()) + 1, found["text"])
        for document in DOCUMENTS
        for text in [read(document)]
        for found in _FENCE.finditer(text)
        if found["language"] == language
    ]


def commands(text: str) -> list[str]:
    """Return what a text has its readers type, in order: one command a line, `\\` joins lines."""
    typed = "".join(found["text"] for found in _FENCE.finditer(text) if found["language"] == "sh")
    return typed.replace("\\\n", " ").splitlines()


def section(document: Path, heading: str) -> str:
    """Return what stands under a heading of the second level."""
    _, _, rest = read(document).partition(f"\n## {heading}\n")
    return rest.partition("\n## ")[0]


def tables(text: str) -> list[list[list[str]]]:
    """Return every table of `text`: its rows without the heading, each a list of cells."""
    lines = [line.strip() for line in text.splitlines()]
    found: list[list[list[str]]] = []
    for index, line in enumerate(lines):
        if re.fullmatch(r"\|[-| ]+\|", line):
            found.append([])
            for row in lines[index + 1 :]:
                if not row.startswith("|"):
                    break
                found[-1].append([cell.strip() for cell in row[1:-1].split(" | ")])
    return found


def documented_metrics() -> dict[str, tuple[str, list[str], str, str]]:
    """Return type, labels, meaning and advice of each metric on the page of metrics."""
    page, _, _ = read(Path("docs/metrics.md")).partition("\n## ")
    found = {}
    for entry in _METRIC.finditer(page):
        name, labels, kind, meaning, advice = entry.groups(default="")
        kind = "counter" if name.endswith("_total") else kind or "gauge"
        found[name] = (kind, [each for each in labels.split(",") if each], meaning, advice)
    return found


def code(text: str) -> list[str]:
    """Return what stands between single backticks."""
    return re.findall(r"`([^`\n]+)`", text)
