"""The Python that the documents show, as modules that type checkers can read.

A block can use what earlier blocks of its document define.  What is shown of an example is checked
as a part of that example.
"""

import builtins
import shutil
import symtable
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.support.documents import ROOT, Block, blocks

EXAMPLES: Final = sorted((ROOT / "examples").glob("*/controller.py"))


def write(folder: Path) -> None:
    """Write all blocks of Python, and all examples, into an empty folder."""
    for example in EXAMPLES:
        shutil.copy(example, folder / f"{_word(f'examples/{example.parent.name}')}.py")
    for block, before in _own():
        (folder / f"{module(block)}.py").write_text("".join(_imports(block, before)) + block.text)


def module(block: Block) -> str:
    """Return the name of a block's module, such as `docs_sdk_62`."""
    return f"{_word(str(block.document.with_suffix('')))}_{block.line}"


def _own() -> Iterator[tuple[Block, Sequence[Block]]]:
    """Yield the blocks that are no part of an example, each with those before it."""
    shown = [example.read_text() for example in EXAMPLES]
    before = list[Block]()
    for block in blocks("python"):
        if not any(block.text in text for text in shown):
            yield block, [each for each in before if each.document == block.document]
            before.append(block)


def _imports(block: Block, before: Sequence[Block]) -> Iterator[str]:
    """Yield lines that import what a block uses of those before it, the last ones first."""
    for name in sorted(_used(block) - _defined(block) - set(dir(builtins))):
        definers = (module(other) for other in reversed(before) if name in _defined(other))
        if found := next(definers, None):
            yield f"from {found} import {name}\n"


def _defined(block: Block) -> set[str]:
    """Return the names that a block defines for the whole module."""
    symbols = _table(block).get_symbols()
    return {each.get_name() for each in symbols if each.is_assigned() or each.is_imported()}


def _used(block: Block) -> set[str]:
    """Return the names that a block takes from the module or from Python."""
    top, used = _table(block), set[str]()
    inner = [top]
    while inner:
        table = inner.pop()
        symbols = table.get_symbols()
        used |= {
            each.get_name()
            for each in symbols
            if each.is_global() or (table is top and each.is_referenced())
        }
        inner += table.get_children()
    return used


def _table(block: Block) -> symtable.SymbolTable:
    return symtable.symtable(block.text, str(block), "exec")


def _word(text: str) -> str:
    return "".join(each if each.isalnum() else "_" for each in text)
