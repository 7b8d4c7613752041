"""Check regularly whether the fences of the rings work."""

from typing import Final, NoReturn

from sharder.controllers.ports import Ports
from sharder.core.errors import ApiError
from sharder.core.fence import Proof, UnknownFence
from sharder.core.names import RingName

PROVE_SECONDS: Final = 60.0
"""Seconds between two dry runs for a ring, fenced or not: a fence can be applied or removed at any
time."""


class FenceProofs:
    """The last proof of each ring's fence."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._proofs: dict[RingName, Proof] = {}

    def of(self, ring: RingName) -> Proof | None:
        """Return the last proof, None before the first proof."""
        return self._proofs.get(ring)

    async def run(self) -> NoReturn:
        """Check one ring after the other until cancelled."""
        while True:
            rings = self._ports.cache.rings()
            for gone in self._proofs.keys() - set(rings):
                del self._proofs[gone]
            for ring in rings:
                if self._ports.leads():
                    await self._prove(ring)
            await self._ports.clock.sleep(PROVE_SECONDS)

    async def _prove(self, ring: RingName) -> None:
        try:
            proof = await self._ports.prove_fence(ring)
        except ApiError as error:
            proof = UnknownFence(str(error))
        if self._proofs.get(ring) != proof:
            self._proofs[ring] = proof
            self._ports.on_change(ring)
