"""Delays after failures."""

from dataclasses import dataclass
from typing import Final, Protocol

HEALTHY_SECONDS: Final = 120.0
"""After this healthy time a failure counts as the first, as in client-go's reflector."""


class Rng(Protocol):
    """The part of `random.Random` that jitter needs."""

    def random(self) -> float:
        """Return a number in [0, 1)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """An exponential back-off with factor 2; `base` and `cap` are seconds."""

    base: float
    cap: float

    def delay(self, failures: int, rng: Rng) -> float:
        """Return the seconds to wait after this number of failures in a row, 0 after 0 failures.

        Up to half of the delay is random, so that clients that failed together do not retry
        together; `cap` is never exceeded.
        """
        return _spread(self.whole(failures), rng)

    def again(self, lasted: float, rng: Rng) -> float:
        """Return the seconds to wait after failures for `lasted` seconds: as long again.

        Unlike a number of failures, it grows no faster if something is tried early.  The rest is
        as in `delay`.
        """
        return _spread(min(self.base + lasted, self.cap), rng)

    def whole(self, failures: int) -> float:
        """Return the delay without jitter, for a single client."""
        if failures <= 0:
            return 0.0
        # 2**1024 overflows a float; the cap is reached long before.
        return min(self.cap, self.base * 2.0 ** min(failures - 1, 64))


def _spread(longest: float, rng: Rng) -> float:
    return longest * (1 + rng.random()) / 2


UNSERVED: Final = Backoff(base=2.0, cap=30.0)
"""The delay between discovery requests for a resource that is not served; short, because its
objects wait as soon as it is served."""


def failures_after(failures: int, lasted: float) -> int:
    """Return the failures in a row, including a new failure after `lasted` healthy seconds."""
    return 1 if lasted >= HEALTHY_SECONDS else failures + 1
