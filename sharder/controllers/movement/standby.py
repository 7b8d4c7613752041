"""Hand over released objects of leading resources while another replica leads.

No shard works on an unassigned object, and every write is guarded, so any replica can assign the
object to the shard in its `next`.  If the leader fails during a rebalance, released objects do not
wait for the next leader.  The leader comes first, and only the leader takes, drains and redirects
objects (docs/protocol.md, "What moves first").
"""

from sharder.controllers.cache_events import Subscriber
from sharder.controllers.movement.handover_loop import HandoverLoop
from sharder.controllers.movement.ports import Ports
from sharder.core.ring.snapshot import Role

LEADER_SECONDS = 0.8
"""Seconds before a standby hands over an object: the leader needs less, unless it is gone or very
busy."""


class StandBy:
    """Hands over objects of leading resources, a second later than the leader, without reports."""

    def __init__(self, ports: Ports) -> None:
        self._cache = ports.cache
        self._loop = HandoverLoop(
            ports, lease_guard=None, roles=(Role.LEADING,), grace=LEADER_SECONDS
        )

    async def run(self) -> None:
        """Watch and hand over until cancelled."""
        watches = self._loop.watches
        subscriber = Subscriber(
            ring=watches.ring_changed, scope=lambda ring, _: watches.ring_changed(ring)
        )
        with self._cache.subscribed(subscriber):
            await self._loop.run()
