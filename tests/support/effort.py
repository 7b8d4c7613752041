"""How many examples are tried: all in `make test`, a tenth of them in `make check`."""

from hypothesis import settings

WHOLE = 100
"""Examples of a promise that says nothing else, in `make test`."""


def share(many: int) -> int:
    """Return how many of so many examples to try, by the profile that pytest was started with."""
    return max(1, many * settings().max_examples // WHOLE)
