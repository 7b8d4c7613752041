"""What must hold at every commit, whatever happens; broken laws bear the numbers of the design.

What these laws cannot judge, because the core does not decide it: S1a beyond the check before a
write (an API server would have to enforce it), the age of a view (S5: it is the watches' to end a
silent stream), S8 for objects (the claim to lead), the reasons why a request never reaches the
webhook (S4: HTTP), S11 (certificates).
"""

from collections.abc import Mapping

from msgspec import structs

from sharder.core.api.meta import PartialObject
from sharder.core.names import SHARDER_IDENTITY, is_label_value
from tests.property.model.cluster import (
    Acknowledgement,
    Change,
    Cluster,
    LeaseChange,
    Move,
    Request,
)
from tests.property.model.core import (
    SELECTED,
    Assign,
    Decision,
    Operation,
    Relabel,
    Review,
    RingSnapshot,
    ShardName,
    Standing,
    admit,
)
from tests.property.model.shards import Shard
from tests.support.json_patch import PatchError, admitted
from tests.support.values import CONFIGMAPS, DRAIN, OWNER, SECRETS


class Broken(AssertionError):
    """A law of the protocol does not hold."""


def expect(law: str, holds: bool, what: str) -> None:
    """Raise `Broken` unless it holds."""
    if not holds:
        raise Broken(f"{law}: {what}")


def expect_same_answer(review: Review, decision: Decision, snapshot: RingSnapshot) -> None:
    """S4: an answer is the same when asked again."""
    expect("S4", admit(review, snapshot) == decision, "another answer to the same question")


def expect_no_addition(
    review: Review, operations: tuple[Operation, ...], snapshot: RingSnapshot
) -> PartialObject:
    """S4: an answer can be applied, and applied twice as once; return what comes of it."""
    try:
        obj = admitted(review.obj, operations)
    except PatchError as error:
        raise Broken(f"S4: the request would be refused: {error}") from error
    again = admit(structs.replace(review, obj=obj), snapshot).operations
    if not _is_given_back(review, obj):
        expect("S4", not again, f"applied twice it says {again}")
    return obj


def _is_given_back(review: Review, obj: PartialObject) -> bool:
    """Return whether a shard released the object and gets it back.

    Asked again, admission sees a drain label that a client removed, and puts it back: the leader
    withdraws it.
    """
    return review.old is not None and not _owner(review.obj) and _owner(review.old) == _owner(obj)


class Laws:
    """Judges every change of an object or a Lease in the moment of its commit."""

    def __init__(self, cluster: Cluster, shards: Mapping[ShardName, Shard]) -> None:
        self.now = 0
        self._cluster = cluster
        self._shards = shards
        cluster.witnesses.append(self.judge)
        cluster.lease_witnesses.append(self.judge_lease)
        self._left: dict[str, ShardName] = {}
        """Whom an object's last owner was, by uid, where the protocol took it from there."""

    def judge(self, change: Change) -> None:
        new = change.new
        if new is None:
            return
        value = new.metadata.label(OWNER)
        expect("S4", not value or is_label_value(value), f"invalid owner {value!r}")
        match change.cause:
            case Move() as move:
                self._judge_move(move, change.old or new, new)
            case Acknowledgement(shard):
                self._judge_acknowledgement(shard, change, change.old or new, new)
            case Request() if change.offered is not None:
                _judge_request(change, change.offered, new)
            case Request():
                # Past the webhook any client can write any label: from there on nothing is known.
                self._left.pop(new.metadata.uid, None)
                return
        if change.old is not None and _owner(change.old) and not _owner(new):
            self._left[new.metadata.uid] = _owner(change.old)

    def judge_lease(self, change: LeaseChange) -> None:
        """S8: one winner per epoch; S10: no Lease is deleted under its shard by a sharder."""
        old, new = change.old, change.new
        if old is None or new is None or old.spec.holder_identity == new.spec.holder_identity:
            return
        before, after = old.spec.lease_transitions or 0, new.spec.lease_transitions or 0
        if new.spec.holder_identity == SHARDER_IDENTITY:
            expect("S8", after == before + 1, f"a takeover leaves the epoch at {after}")

    def _judge_move(self, move: Move, old: PartialObject, new: PartialObject) -> None:
        expect("S7", new.metadata.namespace in SELECTED, f"wrote {new.metadata.ref}, out of scope")
        version = move.obj.metadata.resource_version
        expect("S3", old.metadata.resource_version == version, "written over an unseen change")
        if isinstance(move.step, Assign | Relabel):
            expect("S5", move.step.shard in move.available, f"gave to {move.step.shard}")
            expect("L3", not new.metadata.has_label(DRAIN), "given away with a drain label")
        if _owner(old) == _owner(new):
            return
        if move.resource == CONFIGMAPS:
            self._judge_child(move, old)
        elif _owner(old):
            self._judge_taking(move, old)
        if move.resource == SECRETS and isinstance(move.step, Assign):
            self._judge_arrival(move, _owner(old) or self._left.get(new.metadata.uid), move.step)

    def _judge_taking(self, move: Move, old: PartialObject) -> None:
        """S1b, S2: nothing is taken from a shard that is or may be working."""
        former = _owner(old)
        works = self._works(former)
        expect("S1b", not works, f"took {old.metadata.ref} from {former} at work, by {move.step}")

    def _judge_child(self, move: Move, old: PartialObject) -> None:
        """S9: a controlled object does not leave before its owner, or a recall of that.

        What became of the owner after the sharder read it, it cannot know.
        """
        owner = self._controller(old)
        if owner is None or not _owner(old) or _owner(owner) != _owner(old):
            return
        if self._cluster.relabelled[owner.metadata.uid] > move.read_at:
            return
        standing = move.snapshot.members.standing_of(_owner(old))
        expect(
            "S9",
            standing is Standing.GONE and not self._works(_owner(old)),
            f"{old.metadata.ref} left {_owner(old)} before its owner",
        )
        expect(
            "S9",
            owner.metadata.has_label(DRAIN),
            f"{old.metadata.ref} left {_owner(old)}, which can return to its owner",
        )

    def _judge_arrival(self, move: Move, former: ShardName | None, step: Assign) -> None:
        """S9: what an object controls has left its former shard when the object is given away.

        Unless it came there after it was listed, or could not be written.
        """
        if not former or former == step.shard:
            return
        for child in self._cluster.objects_of(CONFIGMAPS):
            controller = child.metadata.controller
            if controller is None or controller.uid != move.obj.metadata.uid:
                continue
            late = self._cluster.relabelled[child.metadata.uid] > move.read_at
            behind = _owner(child) == former and child.metadata.uid not in move.failed
            expect("S9", late or not behind, f"{child.metadata.ref} stays behind on {former}")

    def _judge_acknowledgement(
        self, shard: ShardName, change: Change, old: PartialObject, new: PartialObject
    ) -> None:
        """S2: both labels go in one write, after the work has ended."""
        expect("S2", old.metadata.has_label(DRAIN), f"{old.metadata.ref} was not asked for")
        expect("S2", _owner(old) == shard, f"{shard} released what was {_owner(old)}'s")
        expect("S2", old.metadata.uid not in self._shards[shard].busy, "released while at work")
        expect("S2", not new.metadata.has_label(DRAIN), "the drain label stays")
        if change.resource == SECRETS:
            expect("S9", not _owner(new), "given away before what it controls")
        elif _owner(new) and change.offered is not None:
            expect("S5", _owner(new) in change.offered, f"gave to {_owner(new)}")

    def _works(self, name: ShardName) -> bool:
        shard = self._shards.get(name)
        return shard is not None and shard.could_act(self.now)

    def _controller(self, child: PartialObject) -> PartialObject | None:
        controller = child.metadata.controller
        owners = self._cluster.objects_of(SECRETS)
        uid = "" if controller is None else controller.uid
        return next((owner for owner in owners if owner.metadata.uid == uid), None)


def _judge_request(change: Change, offered: frozenset[ShardName], new: PartialObject) -> None:
    """S2: no user's write changes an owner or a drain; S5: only available shards get objects."""
    old, place = change.old, f"{change.resource} {new.metadata.ref}"
    if old is not None and _owner(old):
        expect("S2", _owner(new) == _owner(old), f"{place} went to {_owner(new)!r}")
        drains = old.metadata.has_label(DRAIN), new.metadata.has_label(DRAIN)
        expect("S2", drains[0] == drains[1], f"drain of {place} went from {drains}")
        return
    if change.resource == CONFIGMAPS and new.metadata.controller is None:
        return
    expect("S5", not _owner(new) or _owner(new) in offered, f"{place} on {_owner(new)}")
    expect("S2", not new.metadata.has_label(DRAIN), f"{place} begins with a drain")
    if old is not None and change.resource == SECRETS:
        expect("S9", not _owner(new), "given away before what it controls")
    if old is not None and change.resource != CONFIGMAPS:
        expect("S2", not _owner(new), f"{place} was given away while its last shard may work")


def _owner(obj: PartialObject) -> ShardName:
    return ShardName(obj.metadata.label(OWNER))
