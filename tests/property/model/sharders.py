"""A sharder: one replica, which serves the webhook, cares for Leases and moves objects.

Every replica believes that it leads, all the time.  The claim to lead (`core.leases.election`)
makes two leaders rare; that they do no harm must not depend on it.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto

from sharder.core.api.meta import PartialObject
from sharder.core.errors import ApiError, Conflict, NotFound, Rejected, SharderError, Unavailable
from sharder.core.names import GroupResource, ObjectRef
from tests.property.model.ceilings import Ceilings
from tests.property.model.cluster import Answer, Cluster, Move
from tests.property.model.core import (
    SHARDER,
    Assign,
    Drain,
    Recall,
    Relabel,
    Review,
    ShardName,
    Standing,
    admit,
    reserve,
)
from tests.property.model.counting import Counting
from tests.property.model.laws import expect_no_addition, expect_same_answer
from tests.property.model.passes import UNKNOWN, Directed, HandOver, Pass, Steps, Walk
from tests.property.model.view import View
from tests.support.values import DRAIN, OWNER, SECRETS, WIDGETS

Released = dict[ObjectRef, ShardName]


class Fate(Enum):
    """What becomes of a request."""

    ARRIVES = auto()
    ANSWER_IS_LOST = auto()
    """It was carried out, and the sender does not know."""
    IS_LATE = auto()
    """It is under way for longer than its sender waits, or the sender was paused as it sent it."""
    IS_LOST = auto()


class Superseded(SharderError):
    """The ring has changed since the pass began."""


@dataclass(slots=True)
class Task:
    """A pass or a hand-over under way, and the write that it wants next."""

    walk: Walk
    steps: Steps
    wanted: Move | None


class Sharder:
    """One replica."""

    def __init__(self, cluster: Cluster, *, origin: float, skew: timedelta) -> None:
        self._cluster = cluster
        self.view = View(cluster, origin=origin, skew=skew)
        self.late: list[Move] = []
        self.start(0)

    def start(self, now: int) -> None:
        """Begin as a new process; what the old one has sent is still under way."""
        self.is_cut_off = self.is_stalled = False
        self.view.now = now
        self.view.start()
        self.counting = Counting(self._cluster, self.view.snapshot)
        self._pass: Task | None = None
        self._hand_over: Task | None = None
        self._draining: dict[GroupResource, Released] = {WIDGETS: {}, SECRETS: {}}
        self._released: dict[GroupResource, Released] = {WIDGETS: {}, SECRETS: {}}
        for resource, draining in self._draining.items():
            for obj in self._cluster.objects_of(resource):
                if obj.metadata.has_label(DRAIN):
                    draining[obj.metadata.ref] = ShardName(obj.metadata.label(OWNER))
        self._cursor = len(self._cluster.log)

    def tick(self, now: int) -> None:
        """Let time pass; its watches deliver, unless they are broken."""
        self.view.now = now
        if not self.is_cut_off and not self.is_stalled:
            self.view.deliver()
            self.counting.deliver()
        self.counting.tick(now)

    def reconnect(self, *, lists_anew: bool) -> None:
        """End an outage: what was missed is listed or delivered, and its time is no silence.

        Where a list would hide that a shard was back in between, it is left out: the protocol
        counts absence from what was seen.
        """
        if self.is_cut_off:
            self.is_cut_off = False
            self.view.note_outage()
        self.is_stalled = False
        if lists_anew and not self.view.has_missed_a_return():
            self.view.list_anew()
            self.counting.list_anew()
        else:
            self.view.deliver()
            self.counting.deliver()

    @property
    def intended(self) -> Move | None:
        """The write that its pass wants next."""
        return None if self._pass is None else self._pass.wanted

    def answer(self, review: Review) -> Answer:
        """Answer as the webhook; S4: the same once more, and nothing to add to it."""
        snapshot = self.view.snapshot()
        ceilings = Ceilings(self._cluster, snapshot)
        ceilings.look(review)
        decision = admit(review, snapshot)
        expect_same_answer(review, decision, snapshot)
        reserve(snapshot, decision)
        obj = expect_no_addition(review, decision.operations, snapshot)
        ceilings.judge_request(review, obj)
        return Answer(decision.operations, self.view.available())

    def care(self) -> None:
        if not self.is_cut_off:
            self.view.care()

    def count(self, resource: GroupResource, many: int) -> None:
        """Be shown so many changes; B1: what it has done itself stands."""
        if self.counting.owes_more_than_one_move():
            self.counting.show(resource, many)
            return
        with Ceilings(self._cluster, self.view.snapshot()).being_shown():
            self.counting.show(resource, many)

    def resync(self, fate: Fate = Fate.ARRIVES) -> bool:
        """Go on with the pass under way, or begin one; return whether it has come to its end."""
        if self._pass is None:
            if self.is_cut_off:
                return True
            walk = Pass(self._cluster, self.view, self.counting)
            self._pass = Task(walk, walk.run(), None)
        task, self._pass = self._pass, None
        self._pass = self._advance(task, fate)
        return self._pass is None

    def hand_over(self, resource: GroupResource, fate: Fate = Fate.ARRIVES) -> bool:
        """Go on with the hand-over under way, or begin one; return whether it has ended."""
        if self._hand_over is None and not self._begin_to_hand_over(resource):
            return True
        if self._is_gathering() or self._hand_over is None:
            return False
        task, self._hand_over = self._hand_over, None
        self._hand_over = self._advance(task, fate)
        return self._hand_over is None

    def finish(self) -> None:
        """End the pass under way, or a new one, and all hand-overs."""
        while not self.resync():
            pass
        for resource in self._released:
            while not self.hand_over(resource):
                pass

    def direct(self, resource: GroupResource, ref: ObjectRef, target: ShardName) -> None:
        """Bring an object to another shard, as rebalancing does; others can write meanwhile."""
        obj = self._cluster.objects.get((resource, ref))
        if obj is None or self.is_cut_off or self._is_gathering() or self._hand_over is not None:
            return
        walk = Directed(self._cluster, self.view, self.counting)
        walk.ceilings.target = target
        task: Task | None = Task(walk, walk.run(resource, obj, target), None)
        while task is not None:
            task = self._advance(task, Fate.ARRIVES)

    def receive_late(self) -> None:
        """Let the oldest late write arrive, but in the window that the protocol leaves open.

        A sharder that is paused between its check and its write, or whose write takes long, can
        meet a shard that has come back since (docs/protocol.md, "How long one owner at a time
        holds").  Nothing fences that, so it is left out here: all else is judged.
        """
        move = self.late.pop(0)
        owner = ShardName(move.obj.metadata.label(OWNER))
        gone = move.snapshot.members.standing_of(owner) is Standing.GONE
        if gone and self._cluster.returned(owner, move.lease_events):
            return
        try:
            self._write(move)
        except (Conflict, NotFound):
            return

    def _begin_to_hand_over(self, resource: GroupResource) -> bool:
        if self.is_cut_off or self._is_gathering():
            return False
        self._follow_drains()
        released = self._released[resource]
        if not released or not self.view.available():
            return False
        walk = HandOver(self._cluster, self.view, self.counting)
        self._hand_over = Task(walk, walk.run(resource, released), None)
        return True

    def _is_gathering(self) -> bool:
        return (
            self._pass is not None
            and isinstance(self._pass.walk, Pass)
            and self._pass.walk.is_gathering
        )

    def _advance(self, task: Task, fate: Fate) -> Task | None:
        """Carry the wanted write out and run to the next one; None at the end."""
        try:
            if task.wanted is None:
                wanted = next(task.steps)
            else:
                wanted = self._send(task, task.wanted, fate)
        except (StopIteration, Superseded):
            task.steps.close()
            return None
        return Task(task.walk, task.steps, wanted)

    def _send(self, task: Task, move: Move, fate: Fate) -> Move | None:
        self._check(move)
        try:
            result = self._carry_out(move, fate)
        except ApiError as error:
            return task.steps.throw(error)
        return task.steps.send(result)

    def _check(self, move: Move) -> None:
        """Decide again at the moment of sending, by the view of now.

        That view is as old as the watch is late.  It must not miss the return of the
        shard that an object is taken from, so the watch delivers that first.  Where the shard has
        a Lease, the leader sees to it by holding that (`controllers.movement.lease_guard`);
        else it is the window which the protocol leaves open, as in `receive_late`.
        """
        owner = ShardName(move.obj.metadata.label(OWNER))
        if not self.is_cut_off and self._cluster.returned(owner, self.view.cursor):
            self.view.deliver()
        if self.is_cut_off or not self.view.snapshot().places_like(move.snapshot):
            raise Superseded

    def _carry_out(self, move: Move, fate: Fate) -> PartialObject:
        if fate is Fate.IS_LATE:
            self.late.append(move)
        if fate in {Fate.IS_LATE, Fate.IS_LOST}:
            raise Unavailable("no answer")
        result = self._write(move)
        if fate is Fate.ANSWER_IS_LOST:
            raise Unavailable("no answer")
        if not _is_shown(move, result):
            raise Rejected("another webhook has removed the label")
        return result

    def _write(self, move: Move) -> PartialObject:
        ref = move.obj.metadata.ref
        return self._cluster.patch(move.resource, ref, move.body, cause=move, writer=SHARDER)

    def _follow_drains(self) -> None:
        """Take all events of objects that drain or have no owner: these wait for a step.

        A hand-over decides from these alone, so it begins with all of them: an older view is the
        window of a watch delay, in which what an owner controls may be looked for where it was.
        """
        for change in self._cluster.log[self._cursor :]:
            if change.resource not in self._draining:
                continue
            draining = self._draining[change.resource]
            old, new = change.old, change.new
            if new is not None and new.metadata.has_label(DRAIN):
                owner = ShardName(new.metadata.label(OWNER))
                draining[new.metadata.ref] = owner or draining.get(new.metadata.ref, UNKNOWN)
            elif old is not None and old.metadata.has_label(DRAIN):
                owner = draining.pop(old.metadata.ref, UNKNOWN)
                self._released[change.resource][old.metadata.ref] = owner
            elif new is not None and not new.metadata.label(OWNER):
                self._released[change.resource].setdefault(new.metadata.ref, UNKNOWN)
        self._cursor = len(self._cluster.log)


def _is_shown(move: Move, result: PartialObject) -> bool:
    match move.step:
        case Assign(shard) | Relabel(shard):
            return result.metadata.label(OWNER) == shard
        case Drain() | Recall():
            return result.metadata.has_label(DRAIN)
        case _:
            return True
