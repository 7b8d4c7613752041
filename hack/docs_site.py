"""Build the documents as a site: `python -m hack.docs_site`, into build/docs/site.

The pages are copies in which each Mermaid drawing is an image, so a browser loads nothing from
other servers.  The copies keep their relative paths, so links between pages work as on GitHub.
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
FILES = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"),
    "charts/sharder/README.md",
)
NATURAL_SIZE = {kind: {"useMaxWidth": False} for kind in ("flowchart", "sequence", "state")}
"""The Mermaid configuration: a small drawing is not enlarged to the width of the page."""
_DRAWING = re.compile(r"^```mermaid\n(?P<source>.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r"^ *accTitle: (.+)$", re.MULTILINE)


def build(folder: Path) -> None:
    """Build the site into the folder `site` of an empty folder.

    Raises:
        subprocess.CalledProcessError: A program failed or printed a warning.
    """
    pages = folder / "pages"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, pages / name)
    for name in FILES:
        (pages / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, pages / name)
    shutil.copy(ROOT / CONFIG, folder)
    shutil.copy(ROOT / STYLE, pages)
    config = folder / "mermaid.json"
    config.write_text(json.dumps(NATURAL_SIZE))
    drawings = {file: source for page in pages.rglob("*.md") for file, source in drawn(page)}
    with ThreadPoolExecutor() as pool:
        list(pool.map(partial(draw, config=config), drawings, drawings.values()))
    run("zensical", "build", "--strict", "--config-file", CONFIG, cwd=folder)


def drawn(page: Path) -> Iterator[tuple[Path, str]]:
    """Replace the drawings of a page by images; yield each image's file and Mermaid source.

    The files do not exist yet: `draw` writes them.
    """
    text = page.read_text()
    for number, match in enumerate(_DRAWING.finditer(text), start=1):
        file = page.with_name(f"{page.stem}-{number}.svg")
        (title,) = _TITLE.findall(match["source"])
        page.write_text(page.read_text().replace(match[0], f"![{title}]({file.name})"))
        yield file, match["source"]


def draw(file: Path, source: str, *, config: Path) -> None:
    """Draw a Mermaid source into an SVG file, on white because its lines are dark."""
    options = ("--config", str(config), "--quiet")
    run("mermaidx", *options, "--input", "-", "--output", str(file), given=source)
    # The option for the background colour has no effect on SVG.
    file.write_text(file.read_text().replace("color: transparent", "color: white", 1))


def run(program: str, *arguments: str, cwd: Path = ROOT, given: str = "") -> None:
    """Run a program of the virtual environment, with `given` as its standard input.

    Raises:
        subprocess.CalledProcessError: The program failed.
    """
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    subprocess.run(command, cwd=cwd, input=given, text=True, check=True)


def main() -> int:
    """Rebuild the site; return the exit code of the program that failed, else 0."""
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
