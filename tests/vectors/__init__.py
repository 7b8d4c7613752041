"""Check our placement against vectors: python -m tests.vectors FILE…

A file of vectors holds facts about another implementation.  A member that only its files
have names it; each has a module here.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from tests.vectors import gear, gnmic, koordinator, ring, spread
from tests.vectors.result import Result

CHECKS: Final[Mapping[str, Callable[[bytes], Iterator[Result]]]] = {
    "assign_vectors": gnmic.check,
    "best_fit_vectors": gear.check,
    "fragmentation_rate": koordinator.check,
    "rings": ring.check,
    "scoring_cases": spread.check,
}
"""How a file is checked, by a member that only such files have."""


def check(data: bytes) -> Iterator[Result]:
    """Yield a result per case of a file of vectors."""
    try:
        members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        checks = [checked for member, checked in CHECKS.items() if member in members]
        if checks:
            yield from checks[0](data)
        else:
            yield Result(case="file", problems=(f"unknown schema: {', '.join(members)}",))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        yield Result(case="file", problems=(f"not a file of vectors: {error}",))
