"""What a check of vectors answers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec

DIGITS: Final = 9
"""So exact floats have to be equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One case, and what is wrong with it.

    A case that has no meaning here has no problems either; its text then says why.
    """

    case: str
    problems: tuple[str, ...] = ()


Check: TypeAlias = Callable[[msgspec.Raw], Iterator[Result]]


def by_member(
    data: bytes, checks: Mapping[str, Check], without: frozenset[str]
) -> Iterator[Result]:
    """Yield a result per vector, and one for each member of the file that we do not know.

    There is nothing to check in the members `without`.
    """
    for member, raw in msgspec.json.decode(data, type=dict[str, msgspec.Raw]).items():
        if member in checks:
            yield from checks[member](raw)
        elif member not in without:
            yield Result(case=member, problems=("nothing here checks that",))


def compared(case: str, **facts: tuple[object, object]) -> Result:
    """Return the result of a case; each fact is what is expected and what was found."""
    expected = {name: _rounded(fact) for name, (fact, _) in facts.items()}
    found = {name: _rounded(fact) for name, (_, fact) in facts.items()}
    return Result(case=case, problems=differences(expected, found))


def differences(expected: Mapping[str, object], actual: Mapping[str, object]) -> tuple[str, ...]:
    """Return a line per expected member that `actual` lacks or has another value for."""
    return tuple(
        f"{key}: expected {value!r}, got {actual.get(key, 'nothing')!r}"
        for key, value in expected.items()
        if actual.get(key, "nothing") != value
    )


def _rounded(fact: object) -> object:
    if isinstance(fact, float):
        return round(fact, DIGITS) + 0.0
    return tuple(_rounded(part) for part in fact) if isinstance(fact, tuple) else fact
