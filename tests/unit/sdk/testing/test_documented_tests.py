"""The tests that the documents show pass."""

import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import iscoroutinefunction
from pathlib import Path

import pytest

from tests.support.documents import Block, blocks
from tests.support.snippets import module, write

SHOWN = [block for block in blocks("python") if "async def test_" in block.text]


@pytest.fixture(scope="module", autouse=True)
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make the blocks of all documents importable, with what they use."""
    folder, before = tmp_path_factory.mktemp("shown"), set(sys.modules)
    write(folder)
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))
    for name, loaded in list(sys.modules.items()):
        if name not in before and Path(getattr(loaded, "__file__", None) or "/").is_relative_to(
            folder
        ):
            del sys.modules[name]


@pytest.mark.parametrize("block", SHOWN, ids=str)
async def test_a_test_that_a_document_shows_passes(block: Block) -> None:
    members = vars(import_module(module(block))).items()
    tests = [each for name, each in members if name.startswith("test_")]

    assert tests
    for test in tests:
        assert iscoroutinefunction(test)
        await test()
