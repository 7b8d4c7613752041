"""The site of the documents, built by what `make docs` runs."""

import re
from pathlib import Path

import pytest

from hack.docs_site import FILES, build
from tests.support.documents import DOCUMENTS, blocks

FOREIGN = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="(?:https?:)?//[^"]*"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    build(folder)
    return folder / "site"


def test_every_page_is_on_the_site(site: Path) -> None:
    pages = [page for page in DOCUMENTS if len(page.parts) > 1 or page.name in FILES]
    wanted = {page.with_name(page.name.replace("README", "index")) for page in pages}

    built = {page.relative_to(site).with_suffix(".md") for page in site.rglob("*.html")}

    assert wanted <= built


def test_a_reader_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = [
        found for page in site.rglob("*.html") for found in FOREIGN.findall(page.read_text())
    ]

    assert loaded == []


def test_every_drawing_is_a_picture(site: Path) -> None:
    pictures = [file for file in site.rglob("*.svg") if "</svg>" in file.read_text()]
    shown = "".join(page.read_text() for page in site.rglob("*.html"))

    assert len(pictures) == len(blocks("mermaid")) > 0
    assert [picture.name for picture in pictures if f'src="{picture.name}"' not in shown] == []
