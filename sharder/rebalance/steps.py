"""Work that is done step by step, for who has other things to do in between."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""Yields between two steps, of which each takes some milliseconds at most; returns the result."""


def ended(steps: Steps[T]) -> T:
    """Return what all the steps come to."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
