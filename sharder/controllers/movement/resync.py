"""Bring every object of a ring to its shard.

Only the leader runs this: when the input of decisions has changed (shards, their annotations, the
ring; only new namespaces have a pass of their own), when a shard has too many objects, after the
first count, and once per sync period.  A pass over a counted ring lists the objects that might
have to move, other passes list all objects.
"""

import logging
from math import inf

from sharder.controllers.counting.object_count import ObjectCount
from sharder.controllers.counting.unread_parts import Unreadable, UnreadParts
from sharder.controllers.movement.children import controlled_by
from sharder.controllers.movement.handover import Handover
from sharder.controllers.movement.mover import AGAIN_SECONDS, Mover, Superseded
from sharder.controllers.movement.ring_pass import RingPass
from sharder.controllers.ports import Ports
from sharder.controllers.scope import MAX_NAMESPACES, NAMESPACES, Part, parts_of
from sharder.core.api.lease import to_the_second
from sharder.core.api.ring import LastResync
from sharder.core.errors import ApiError
from sharder.core.leases.membership import Members
from sharder.core.names import RingName
from sharder.core.ring.snapshot import RingSnapshot, Role

LATE_SECONDS = 15.0
"""Seconds until the next pass after the shards of a ring changed, or objects were taken from
shards that are gone: a write that an outdated webhook has admitted can be stored this late.  It is
longer than webhook and request can take together."""

GATHER_SECONDS = 0.2
"""Seconds in which added namespaces are collected: many are created together, and their objects a
moment later."""

_log = logging.getLogger(__name__)


class Resync:
    """Reconciles the objects of one ring at a time, or of one part of it."""

    def __init__(
        self,
        ports: Ports,
        *,
        mover: Mover,
        handover: Handover,
        unread: UnreadParts,
        count: ObjectCount,
    ) -> None:
        """Set up the resync.

        Args:
            ports: Everything outside of movement.
            mover: Writes the steps.
            handover: Moves objects after their children.
            unread: Gets the parts that could not be read.
            count: Counts a ring again after a pass, and when its objects can be read again.
        """
        self._ports = ports
        self._mover = mover
        self._handover = handover
        self._unread = unread
        self._count = count
        self._since: dict[RingName, tuple[Members, float]] = {}
        """The members of each ring's last passes, and when the first of these passes ended."""
        self._uncontrolled: dict[Part, int] = {}
        """The objects without a controller, of the resources that each part controls."""
        self.reports: dict[RingName, LastResync] = {}
        """The report of each ring's last pass."""

    def uncontrolled(self, snapshot: RingSnapshot) -> int:
        """Return how many objects of the ring's controlled resources have no controller."""
        return sum(self._uncontrolled.get(part, 0) for part in parts_of(snapshot))

    async def reconcile(self, name: RingName) -> float | None:
        """Pass over the ring's objects; return the seconds until the next pass.

        A pass whose snapshot was replaced ends at once and starts again.  Parts that could not be
        read are left out: they are read again each for itself.
        """
        snapshot = self._ports.cache.snapshot(name)
        if snapshot is None:
            self._since.pop(name, None)
            self.reports.pop(name, None)
            self._mover.written.forget(name)
            self._count.passed(name)
            for part in [part for part in self._uncontrolled if part.ring == name]:
                del self._uncontrolled[part]
            return None
        began = self._ports.clock.monotonic()
        self._mover.written.begin(name)
        try:
            done = await self._run(snapshot)
        except Superseded:
            return AGAIN_SECONDS
        seconds = self._ports.clock.monotonic() - began
        self._ports.metrics.times["resync_duration_seconds"].observe(seconds, name)
        totals = self._mover.written.totals[name]
        report = self.reports[name] = LastResync(
            time=to_the_second(self._ports.clock.now()),
            duration_seconds=round(seconds, 3),
            assigned=totals["assigned"],
            moved=totals["moved"],
            drained=totals["drained"],
            conflicts=totals["conflicts"],
        )
        counts = {what: totals[what] for what in ("assigned", "moved", "drained", "failed")}
        fields = {"ring": name, **counts, "seconds": report.duration_seconds}
        _log.log(logging.INFO if any(counts.values()) else logging.DEBUG, "resynced", extra=fields)
        self._mover.written.passed(name)
        self._count.passed(name)
        self._ports.on_change(name)
        return min(done.again_in, self._next_in(name, snapshot.members, rescued=report.moved))

    async def read_again(self, part: Part) -> float | None:
        """Pass over one part; return the seconds until the next pass over it, if it needs one."""
        snapshot = self._ports.cache.snapshot(part.ring)
        role = None if snapshot is None else snapshot.roles.get(part.resource)
        if snapshot is None or role is None or part.namespace not in {"", *snapshot.namespaces}:
            self._unread.forget(part)
            return None
        if role is Role.CONTROLLED:
            return await self._find_again(part)
        try:
            done = await self._run(snapshot, part)
        except Superseded:
            return AGAIN_SECONDS
        if part not in done.unread:
            self._unread.forget(part)
        self._count.moved(part.ring)
        return done.again_in if done.again_in < inf else None

    def scope_grew(self, ring: RingName, added: frozenset[str]) -> None:
        """Pass over namespaces that were added to the ring's scope; an empty set does nothing.

        Namespaces are added all the time, and a pass over the whole ring for each of them would
        keep the leader busy forever.  A namespace that leaves the scope needs a count only.
        """
        self._count.passed(ring)
        snapshot = self._ports.cache.snapshot(ring)
        if snapshot is None or not added:
            return
        if len(added) > MAX_NAMESPACES:
            self._ports.resync_ring(ring)
            return
        for main in snapshot.resources:
            is_whole = main.id in snapshot.cluster_scoped
            if not is_whole or main.id == NAMESPACES or snapshot.roles[main.id] is Role.LEADING:
                for namespace in [""] if is_whole else added:
                    self._unread.read_again(Part(ring, main.id, namespace), GATHER_SECONDS)

    def writes_again(self, part: Part) -> None:
        """Pass over what waited because no object of the part could be written."""
        snapshot = self._ports.cache.snapshot(part.ring)
        if snapshot is None:
            return
        for main in snapshot.resources:
            if part.resource in {main.id, *controlled_by(snapshot, main.id)}:
                self._pass_again(snapshot, Part(part.ring, main.id, part.namespace))

    def _pass_again(self, snapshot: RingSnapshot, part: Part) -> None:
        """Pass over a part, and write what could not be written until now."""
        for of in (part.resource, *controlled_by(snapshot, part.resource)):
            self._mover.failures.forgive(Part(part.ring, of, part.namespace))
        self._unread.read_again(part)

    async def _find_again(self, part: Part) -> float | None:
        """Request a pass over the ring once a controlled resource is served."""
        try:
            await self._ports.objects.find(part.resource)
        except ApiError as error:
            self._unread.failed(part, Unreadable(part, error))
        else:
            self._unread.forget(part)
            self._ports.resync_ring(part.ring)
        return None

    async def _run(self, snapshot: RingSnapshot, part: Part | None = None) -> RingPass:
        """Pass over one part, or over all that can be read."""
        done = RingPass(snapshot, self._ports, self._mover, self._handover)
        read = await done.run(part, self._unread)
        for unread, error in done.unread.items():
            self._unread.failed(unread, error)
        parts = parts_of(snapshot)
        for each in read:
            if each.part in parts:
                self._uncontrolled[each.part] = each.uncontrolled
            if self._unread.read(each.part):
                self._count.moved(each.part.ring)
                self._pass_again(snapshot, each.part)
        return done

    def _next_in(self, name: RingName, members: Members, *, rescued: int) -> float:
        """Return the seconds until the next pass, independent of passes in between."""
        now = self._ports.clock.monotonic()
        if rescued or name not in self._since or self._since[name][0] != members:
            self._since[name] = members, now
        late, usual = self._since[name][1] + LATE_SECONDS - now, self._ports.sync_period
        return min(late, usual) if late > 0 else usual
