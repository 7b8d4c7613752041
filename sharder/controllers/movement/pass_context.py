"""What all parts of a pass share: the snapshot, and how long it waits for the ring's budget.

That is a few seconds; the remaining drains wait for the next pass (docs/protocol.md, "Budgets").
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sharder.controllers.counting.unread_parts import Unreadable
from sharder.controllers.movement.handover import Handover
from sharder.controllers.movement.mover import Decide, Deferred, Mover
from sharder.controllers.ports import Ports
from sharder.controllers.scope import Part, ResourceKey, naming_the_rule
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ApiError
from sharder.core.names import GroupResource, ShardName
from sharder.core.ring.snapshot import RingSnapshot

WAIT_SECONDS = 10.0
"""Seconds for which a pass waits for its budget, counted from the first deferred drain."""

RETRY_SECONDS = 0.2
"""Seconds between two checks of the budget; an acknowledgement takes about as long."""

MIN_SECONDS, MAX_SECONDS = 1.0, 15.0
"""Limits of the seconds until the next pass if drains are still deferred at the end of a pass; the
maximum is as long as after a change, because a pass also rescues objects, which needs no
budget."""


@dataclass(slots=True, kw_only=True)
class PassContext:
    """What all parts of a pass share."""

    snapshot: RingSnapshot
    ports: Ports
    mover: Mover
    handover: Handover
    unread: dict[Part, Unreadable] = field(default_factory=dict)
    """The parts that could not be read, and the controlled resources that are not served."""
    again_in: float | None = None
    """Seconds until the next pass can drain more, None if no drain is left to it."""
    _waits_until: float | None = None

    async def find(self, of: GroupResource) -> Resource:
        """Return the resource as it is served."""
        with self.reading(of):
            return await self.ports.objects.find(of)

    @contextmanager
    def reading(self, of: GroupResource, namespace: str = "") -> Iterator[None]:
        """Raise `Unreadable`, with the missing right, for an error of the API server."""
        try:
            with naming_the_rule(of):
                yield
        except ApiError as error:
            part = Part(ResourceKey(self.snapshot.name, of), namespace)
            raise Unreadable(part, error) from error

    async def move(self, resource: Resource, obj: PartialObject, decide: Decide) -> None:
        """Move one object, if it is drained when there is room."""
        step = await self.mover.move(self.snapshot.name, resource, obj, decide)
        while isinstance(step, Deferred) and await self._has_room(step.shard):
            step = await self.mover.move(self.snapshot.name, resource, obj, decide)

    async def _has_room(self, shard: ShardName) -> bool:
        """Wait until the budget allows another drain; return False if that takes too long."""
        if self._waits_until is None:
            self._waits_until = self.ports.clock.monotonic() + WAIT_SECONDS
        budget, limits = (
            self.mover.table.budget(self.snapshot.name),
            self.snapshot.ring.spec.movement,
        )
        while refusal := budget.refusal(shard, limits, leads=True):
            if self.ports.clock.monotonic() + refusal.seconds > self._waits_until:
                again = min(max(refusal.seconds, MIN_SECONDS), MAX_SECONDS)
                self.again_in = min(again, self.again_in or again)
                return False
            await self.ports.clock.sleep(RETRY_SECONDS)
            self.mover.check(self.snapshot)
        return True
