"""Laws of a ring whose strategy sticks: B1 to B4, P1.

B1: a replica counts what it decides at once.
B2: a replica whose counts are right assigns no object to a shard that cannot have it, leaves no
object without owner that some shard can have, and drains none without a reason.
B3: an undisturbed pass drains from each shard exactly its excess, the least drawn objects first,
and leaves no drain that is no longer needed.
B4: at rest (`model.rest`) no shard has too many, and the counts of all replicas are right.
P1: while movement is paused no object is drained, and drains are withdrawn.

Two replicas, or one that counts late, can exceed a ceiling: so B2 and B3 judge a replica only
while its counts are right.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sharder.core.api.meta import PartialObject
from sharder.core.names import GroupResource
from tests.property.model.account import Account, drains, owner_of
from tests.property.model.cluster import Cluster, Move
from tests.property.model.core import (
    SHARDER,
    Assign,
    Drain,
    Recall,
    Review,
    RingSnapshot,
    Role,
    ShardName,
    Standing,
    Step,
    Withdraw,
)
from tests.property.model.counting import MAIN, Counting
from tests.property.model.laws import expect


class Ceilings:
    """Judges what one replica decides by one snapshot."""

    def __init__(self, cluster: Cluster, snapshot: RingSnapshot) -> None:
        self._cluster = cluster
        self._snapshot = snapshot
        self._before: Account | None = None
        """What was so before a decision; None if the replica did not know it, or counts not."""
        self._is_believed_there = False
        self._began: tuple[Account, int, bool] | None = None
        """The same before a pass, the place in the log, and whether nothing was assumed."""
        self.target: ShardName | None = None
        """The shard that rebalancing moves an object to; None for all other decisions."""

    def look(self, review: Review) -> None:
        """Take note of what is so before a request is answered."""
        self._before = self._informed()
        tally = self._snapshot.tally
        if tally is not None and (review.old is None or not owner_of(review.old)):
            # It was deleted or released, not seen yet: it is not counted elsewhere before that.
            counted = tally.shard_of(self._snapshot.identity_of(review.obj))
            self._is_believed_there = counted is not None

    def is_informed(self) -> bool:
        """Return whether the replica counts, and its counts are right."""
        return self._informed() is not None

    @contextmanager
    def being_shown(self) -> Iterator[None]:
        """B1: old events do not make right counts wrong."""
        was_informed = self.is_informed()
        yield
        if was_informed:
            differs = Account(self._cluster, self._snapshot).differs()
            expect("B1", differs is None, f"after old news it counts {differs}")

    @contextmanager
    def writing(self, move: Move, counting: Counting) -> Iterator[None]:
        """B1: right counts stay right after a write of its own that did not take long.

        An object that is recalled counts where it goes: that is decided before.
        """
        was_informed, log, since = self.is_informed(), self._cluster.log, len(self._cluster.log)
        world = counting.ages, self._cluster.refused
        yield
        is_alone = len(log) == since + 1 and world == (counting.ages, self._cluster.refused)
        is_own = log[-1:] and log[-1].cause is move and not isinstance(move.step, Recall)
        if was_informed and is_alone and is_own:
            differs = Account(self._cluster, self._snapshot).differs()
            expect("B1", differs is None, f"after a write it counts {differs}")

    def judge_of(self, resource: GroupResource, obj: PartialObject) -> Callable[[Step], None]:
        """Return what judges the step that is decided next; nothing if the object has changed."""
        current = self._cluster.objects.get((resource, obj.metadata.ref))
        before = self._informed() if resource in MAIN and current == obj else None

        def judge(step: Step) -> None:
            if before is not None:
                self._judge_step(before, obj, step)

        return judge

    def judge_request(self, review: Review, obj: PartialObject) -> None:
        """B1, B2: `obj` is what comes of a request that was just answered."""
        tally, old = self._snapshot.tally, review.old
        role = self._snapshot.roles[review.resource]
        if tally is None or role is Role.CONTROLLED or review.writer == SHARDER:
            return
        owner = owner_of(obj)
        was_released = old is not None and owner_of(old) and drains(old) and not drains(obj)
        if old is not None and (role is Role.LEADING or not was_released):
            return
        counted = tally.shard_of(self._snapshot.identity_of(obj))
        is_sent = old is not None and self._snapshot.direction_of(old) == owner
        is_seen = not owner or tally.synced or is_sent
        expect("B1", is_seen, f"{obj.metadata.ref} went to {owner} blindly")
        is_counted = counted == owner or self._is_believed_there
        expect("B1", not owner or is_counted, f"{obj.metadata.ref} counts on {counted}")
        if self._before is not None:
            takers = self._before.takers(old if old is not None and was_released else obj)
            expect("B2", not owner or owner in takers, f"{obj.metadata.ref} went to {owner}")
            expect("B2", bool(owner) or not takers, f"{takers} could have {obj.metadata.ref}")

    def begin(self) -> None:
        """Take note of what is so before a pass."""
        before = self._informed()
        now = len(self._cluster.log)
        self._began = None if before is None else (before, now, before.is_shown())

    def end(self) -> None:
        """B3: judge the pass, unless another client has written meanwhile."""
        if self._began is None:
            return
        before, since, was_shown = self._began
        changes = self._cluster.log[since:]
        moves = [c.cause for c in changes if isinstance(c.cause, Move)]
        own = [m for m in moves if m.snapshot is self._snapshot]
        if len(own) < len(changes):
            return
        after = self._informed()
        if after is None:
            return
        asked = {
            m.obj.metadata.uid: m.step.shard
            for m in own
            if isinstance(m.step, Drain) and m.resource in MAIN
        }
        is_pinned_away = any(self._is_wanted_elsewhere(before, obj) for obj in before.objects)
        # What moves for another reason changes the automatic ceilings after they were looked at.
        is_pinned_away |= bool(before.evacuated)
        if self._is_paused:
            left = [obj.metadata.ref for obj in after.objects if self._is_asked_for(after, obj)]
            expect("P1", not left, f"movement is paused, {left} are draining")
            return
        for shard in after.available:
            excess = after.excess(shard)
            expect("B3", not (excess and was_shown), f"{shard} keeps {excess} too many")
            if not is_pinned_away:
                self._judge_displaced(after, shard, asked)
        for obj in after.objects:
            takers = after.takers(obj) if self._is_stranded(obj) else set[ShardName]()
            expect("B3", not takers, f"{takers} could have {obj.metadata.ref}")

    def _judge_displaced(
        self, after: Account, shard: ShardName, asked: dict[str, ShardName]
    ) -> None:
        mine = [obj for obj in after.objects if owner_of(obj) == shard]
        draining = [obj for obj in mine if drains(obj)]
        limit = after.limit(shard)
        # While withdrawals are only assumed more can stay: a later pass drains these.
        needed = limit is not None and after.staying[shard] >= limit
        idle = [obj for obj in draining if not after.must_leave(obj)]
        expect("B3", needed or not idle, f"{shard} drains {len(idle)} without need")
        given = [after.weight(o, shard) for o in draining if o.metadata.uid in asked]
        kept = [after.weight(o, shard) for o in mine if not drains(o)]
        expect("B3", not given or not kept or max(given) < min(kept), f"{shard} gives the wrong")

    def _judge_step(self, before: Account, obj: PartialObject, step: Step) -> None:
        place = f"{obj.metadata.ref} on {owner_of(obj)!r}"
        match step:
            case Assign(shard):
                expect("B2", shard in before.takers(obj), f"{place} goes to {shard}")
            case Drain(shard, to):
                leaves = self._snapshot.members.standing_of(shard) is Standing.LEAVING
                leaves |= shard in before.evacuated
                reason = leaves or before.excess(shard) or self._is_wanted_elsewhere(before, obj)
                # Only rebalancing drains without such a reason, to a shard that can take it.
                is_directed = to is not None and to == self.target
                reason = reason or (is_directed and to in before.takers(obj) - {shard})
                expect("B2", bool(reason), f"{place} is drained without a reason")
                expect("P1", not self._is_paused, f"{place} is drained while movement is paused")
            case Withdraw():
                limit = before.limit(owner_of(obj))
                fits = limit is None or before.staying[owner_of(obj)] < limit
                fits = fits or owner_of(obj) in before.takers(obj) or self._is_paused
                expect("B2", fits, f"{place} stays on a full shard")
            case _:
                pass

    def _informed(self) -> Account | None:
        if self._snapshot.tally is None:
            return None
        account = Account(self._cluster, self._snapshot)
        return account if account.differs() is None else None

    @property
    def _is_paused(self) -> bool:
        return self._snapshot.ring.spec.movement.paused

    def _is_asked_for(self, account: Account, obj: PartialObject) -> bool:
        return drains(obj) and owner_of(obj) in account.available

    def _is_stranded(self, obj: PartialObject) -> bool:
        owner = owner_of(obj)
        return not owner or self._snapshot.members.standing_of(owner) is Standing.GONE

    def _is_wanted_elsewhere(self, account: Account, obj: PartialObject) -> bool:
        return account.goal(obj) not in {None, owner_of(obj)}
