"""Check regularly whether the fences of the rings work."""

from collections.abc import Callable
from typing import Final, NoReturn

from sharder.controllers.cache import ClusterCache
from sharder.core.errors import ApiError
from sharder.core.fence.probe import Proof, UnknownFence
from sharder.core.names import RingName
from sharder.ports import Fences
from sharder.runtime.clock import Clock

PROVE_SECONDS: Final = 60.0
"""Seconds between two dry runs for a ring, fenced or not: a fence can be applied or removed at any
time."""


class FenceProofs:
    """The last proof of each ring's fence."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        fences: Fences,
        leads: Callable[[], bool],
        on_change: Callable[[RingName], None],
        clock: Clock,
    ) -> None:
        """`on_change` is called with each ring whose proof has changed."""
        self._cache = cache
        self._fences = fences
        self._leads = leads
        self._on_change = on_change
        self._clock = clock
        self._proofs: dict[RingName, Proof] = {}

    def of(self, ring: RingName) -> Proof | None:
        """Return the last proof, None before the first proof."""
        return self._proofs.get(ring)

    async def run(self) -> NoReturn:
        """Check one ring after the other until cancelled."""
        while True:
            rings = self._cache.rings()
            for gone in self._proofs.keys() - set(rings):
                del self._proofs[gone]
            for ring in rings:
                if self._leads():
                    await self._prove(ring)
            await self._clock.sleep(PROVE_SECONDS)

    async def _prove(self, ring: RingName) -> None:
        try:
            proof = await self._fences.prove(ring)
        except ApiError as error:
            proof = UnknownFence(str(error))
        if self._proofs.get(ring) != proof:
            self._proofs[ring] = proof
            self._on_change(ring)
