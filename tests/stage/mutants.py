"""Deliberate bugs, each named in mutants.toml with the law that it breaks.

A scenario, random seeds and nemesis find them.  A bug is one change of one function, made in the
running program: wherever the function was imported to, it has the bug.
"""

import ast
import inspect
import os
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, reduce
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import msgspec

VARIABLE: Final = "SHARDER_MUTANT"
"""The environment variable that names the bug of a process, and ..."""
STARTUP: Final = Path(__file__).with_name("startup")
"""... the folder on PYTHONPATH that puts it in."""


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A bug."""

    law: str
    """The scenario that finds it."""
    where: str
    """The function, as `module:Class.function`."""
    old: str
    """Stands in its source exactly once."""
    new: str
    also: str = ""
    """Another bug that it needs, where two things protect from one harm."""

    def apply(self) -> Callable[[], None]:
        """Put the bug in; return what takes it out again.

        Raises:
            LookupError: the source has changed, and the mutant has to follow.
        """
        restore_other = MUTANTS[self.also].apply() if self.also else lambda: None
        function = _function(self.where)
        source = textwrap.dedent(inspect.getsource(function))
        if source.count(self.old) != 1:
            raise LookupError(f"{self.where} has {source.count(self.old)} times {self.old!r}")
        before, function.__code__ = function.__code__, _code(function, self._mutated(source))

        def restore() -> None:
            function.__code__ = before
            restore_other()

        return restore

    def _mutated(self, source: str) -> str:
        """Return the source with the bug, whose further lines are indented as its first."""
        line = source[: source.index(self.old)].rpartition("\n")[2]
        indent = "\n" + " " * (len(line) - len(line.lstrip()))
        return source.replace(self.old, self.new.replace("\n", indent))


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Have a bug while the block lasts; none if the name is empty."""
    restore = MUTANTS[name].apply() if name else lambda: None
    try:
        yield
    finally:
        restore()


def apply_named() -> None:
    """Put in the bug that the environment names, if any, for the rest of the process."""
    if name := os.environ.get(VARIABLE):
        MUTANTS[name].apply()


def _function(where: str) -> FunctionType:
    module, _, path = where.partition(":")
    found: Any = reduce(inspect.getattr_static, path.split("."), import_module(module))
    match found:
        case property():
            found = found.fget
        case cached_property():
            found = found.func
        case classmethod() | staticmethod():
            found = found.__func__
        case _:
            pass
    function = inspect.unwrap(found)
    assert isinstance(function, FunctionType), where
    return function


def _code(function: FunctionType, source: str) -> Any:
    """Return the code of a function with another source."""
    tree = ast.parse(source)
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    definition.decorator_list = []
    made: dict[str, Any] = {}
    exec(compile(tree, function.__code__.co_filename, "exec"), dict(function.__globals__), made)  # noqa: S102 - our own source
    return made[definition.name].__code__


MUTANTS: Final = msgspec.toml.decode(
    Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, Mutant]
)
"""By name."""
