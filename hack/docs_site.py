"""Build the documents as a site: `python -m hack.docs_site`, into build/docs/site.

It is built from copies, in which each Mermaid drawing is a picture: readers load nothing from
elsewhere.  The copies keep their places, so links between them lead where they do on GitHub.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build/docs"
CONFIG = "zensical.toml"
STYLE = "hack/docs_site.css"
FOLDERS = ("docs", "examples")
FILES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")
NATURAL_SIZE = {kind: {"useMaxWidth": False} for kind in ("flowchart", "sequence", "state")}
"""Mermaid's configuration: a small drawing is not blown up to the width of the page."""
_DRAWING = re.compile(r"^```mermaid\n(?P<source>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r"^ *accTitle: (.+)$", re.MULTILINE)


def build(folder: Path) -> None:
    """Build the site into `site` below an empty folder.

    Raises:
        subprocess.CalledProcessError: There is a warning; it was printed.
    """
    pages = folder / "pages"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, pages / name)
    for name in FILES:
        shutil.copy(ROOT / name, pages)
    shutil.copy(ROOT / CONFIG, folder)
    shutil.copy(ROOT / STYLE, pages)
    for page in pages.rglob("*.md"):
        widen(page)
    config = folder / "mermaid.json"
    config.write_text(json.dumps(NATURAL_SIZE))
    drawings = {file: source for page in pages.rglob("*.md") for file, source in drawn(page)}
    with ThreadPoolExecutor() as pool:
        list(pool.map(partial(draw, config=config), drawings, drawings.values()))
    run("zensical", "build", "--strict", "--config-file", CONFIG, cwd=folder)


def widen(page: Path) -> None:
    """Let a page without sections, such as one long table, use the room of their list."""
    text = page.read_text()
    if "\n## " not in text:
        page.write_text(f"---\nhide: [toc]\n---\n{text}")


def drawn(page: Path) -> Iterator[tuple[Path, str]]:
    """Put pictures in the place of a page's drawings; yield their files with what they show."""
    text = page.read_text()
    for number, found in enumerate(_DRAWING.finditer(text), start=1):
        file = page.with_name(f"{page.stem}-{number}.svg")
        (title,) = _TITLE.findall(found["source"])
        page.write_text(page.read_text().replace(found[0], f"![{title}]({file.name})"))
        yield file, found["source"]


def draw(file: Path, source: str, *, config: Path) -> None:
    """Draw what a text in Mermaid's language describes, on white: its lines are dark."""
    options = ("--config", str(config), "--quiet")
    run("mermaidx", *options, "--input", "-", "--output", str(file), given=source)
    # The option for this colours other formats than this one.
    file.write_text(file.read_text().replace("color: transparent", "color: white", 1))


def run(program: str, *arguments: str, cwd: Path = ROOT, given: str = "") -> None:
    """Run a program of the virtual environment."""
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    subprocess.run(command, cwd=cwd, input=given, text=True, check=True)


def main() -> int:
    """Build the site anew; 1 where that was not possible."""
    argparse.ArgumentParser(prog="python -m hack.docs_site", description=__doc__).parse_args()
    shutil.rmtree(BUILD, ignore_errors=True)
    try:
        build(BUILD)
    except subprocess.CalledProcessError as problem:
        return problem.returncode
    print(f"\nLook at it:\n  {sys.executable} -m http.server --directory {BUILD / 'site'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
