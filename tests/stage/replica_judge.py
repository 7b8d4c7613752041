"""What a replica must not send or answer, by the ring as that replica sees it just then."""

import base64
from collections.abc import Iterable, Iterator
from math import ceil
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing, RebalanceStrategy, StrategyName
from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import choose, choose_anew
from sharder.core.movement.patches import Operation
from sharder.core.names import (
    SHARDER_IDENTITY,
    GroupResource,
    ObjectRef,
    RingName,
    ShardName,
    drain_label,
    owner_label,
    pin_label,
)
from sharder.core.ring.snapshot import RingSnapshot
from sharder.kube.typed_stores import RINGS
from sharder.sdk.testing.requests import Call, place_of
from sharder.sdk.testing.storage import Change, Stored
from tests.history.traces import Happening
from tests.support.json_patch import PatchError, apply_json_patch

if TYPE_CHECKING:
    from tests.stage.actors import ReplicaActor

LARGE: Final = 10_000
"""Reviews of so many bytes are not judged."""
KEPT_SECONDS: Final = 50.0
"""A released Lease is kept for longer."""
RESERVED_SECONDS: Final = 20.0
"""An object that a replica assigned takes room there for longer, also while no watch shows it."""
STILL_SECONDS: Final = 4.0
"""A process that stood still for longer notices that, and catches up with ..."""
WAKING_SECONDS: Final = 0.9
"""... what happened, for longer than this."""
TOLD: Final = {"ShardJoined", "ShardLeft", "ShardLost"}
TICK_SECONDS: Final = 0.4
"""What a replica tells within this time, it tells at once."""
SITES: Final = GroupResource("example.com", "websites")
WRITTEN: Final = {"websites", "secrets", "configmaps", "leases"}


class ReplicaJudge:
    """Judges one replica by what it sends and answers, and by what it knows of all that itself."""

    def __init__(self, actor: "ReplicaActor", ring: RingName) -> None:
        self._actor = actor
        self._ring = ring
        self._owner, self._drain, self._pin = owner_label(ring), drain_label(ring), pin_label(ring)
        self._drained = list[float]()
        """When a drain began that it wrote in its present term."""
        self._told = list[float]()
        """When it told in its term what became of shards."""
        self._pinned = set[ObjectRef]()
        """What has or had a pin, so that a drain may lose its reason without an epoch."""
        self._assigned = dict[ObjectRef, float]()
        """When it assigned an object last."""

    @property
    def _snapshot(self) -> RingSnapshot | None:
        return self._actor.snapshot

    def _blame(self, wrong: Iterable[str]) -> None:
        self._actor.process.errors += wrong

    def begin_term(self) -> None:
        """Note that it leads from now on."""
        self._drained.clear()
        self._told.clear()

    def see_request(self, call: Call) -> None:
        """Judge a request that it sends."""
        self._blame(self._tells(call.body) if call.method == "POST" else self._writes(call))

    def see_answer(self, body: bytes, answer: bytes) -> None:
        """Judge its answer to a review."""
        if self._snapshot is not None and len(body) < LARGE:
            self._blame(_answered(body, answer, self._snapshot, is_waking=self._is_waking()))

    def _is_waking(self) -> bool:
        """Return whether it stood still until a moment ago."""
        name, now = self._actor.name, self._actor.clock.monotonic()
        last = [each for each in self._actor.stage.history.events if each.process == name][-2:]
        if [each.kind for each in last] != [Happening.PAUSED, Happening.RESUMED]:
            return False
        return last[1].at - last[0].at > STILL_SECONDS and now < last[1].at + WAKING_SECONDS

    def observe(self, change: Change) -> None:
        """Note what it has assigned and drained; judge drains that are too many in a minute."""
        before, after, actor = change.before, change.after, self._actor
        if any(each is not None and each.meta.label(self._pin) for each in (before, after)):
            self._pinned.add(change.ref)
        if before is None or after is None or change.author is not actor.client.user:
            return
        now, owner = actor.clock.monotonic(), after.meta.label(self._owner)
        if owner and owner != before.meta.label(self._owner):
            self._assigned[change.ref] = now
            if after.meta.has_label(self._drain):
                self._blame([f"{change.ref} arrives at {owner} with a drain"])
        if after.meta.has_label(self._drain) and not before.meta.has_label(self._drain):
            ring = actor.stage.storage.of(RINGS.id)[ObjectRef("", self._ring)]
            limit = ring.as_(ControllerRing).spec.movement.max_moves_per_minute
            self._drained = [at for at in self._drained if at > now - 60] + [now]
            if 0 < limit < len(self._drained):
                self._blame([f"{len(self._drained)} drains in a minute"])

    def overlooked(self) -> Iterator[tuple[str, object]]:
        """Yield what is in no shard, or on a wrong one, with the ring's epoch beside it.

        Only a leader that nothing hinders overlooks anything.  Nor does it overlook a drain that
        an event has made needless: the next pass finds it.  Without an epoch it needs more time.
        """
        ring, actor = self._snapshot, self._actor
        is_held = actor.link.is_cut or actor.link.stalled or actor.link._waiting is not None
        is_stopped = actor.process.is_stopped or not actor.is_running
        if ring is None or not actor.leads or is_stopped or is_held:
            return
        limits = ring.ring.spec.movement
        is_limited = limits.max_concurrent_drains or limits.max_moves_per_minute
        for stored in actor.stage.storage.of(SITES).values():
            obj = website(stored)
            owner, drains, name = ring.owner_of(obj), ring.is_draining(obj), obj.metadata.name
            if owner is None:
                if choose(ring, obj).shard is not None:
                    yield f"{name} has no shard", None
                continue
            standing = ring.members.standing_of(owner)
            is_home = ring.tally is None and choose(ring, obj).shard == owner
            is_fixed = limits.paused or (is_home and stored.meta.ref not in self._pinned)
            if drains and is_fixed and standing is not Standing.GONE:
                yield f"{name} drains from {owner} for no reason", ring.epoch
            is_free = not (limits.paused or is_limited or drains)
            leaves = is_free and standing is Standing.LEAVING
            if (leaves or standing is Standing.GONE) and choose_anew(ring, obj).shard is not None:
                yield f"{name} stays on {owner}, which is {standing.name}", ring.epoch

    def _tells(self, event: Any) -> Iterator[str]:
        """Yield Events about shards that are more than six at once, and one each 10 s."""
        now, told = self._actor.clock.monotonic(), self._told
        if event.get("reason") not in TOLD or (told and now < told[-1] + TICK_SECONDS):
            return
        told.append(now)
        if any(len(told) - at > 7 + (now - begin) / 10 for at, begin in enumerate(told)):
            yield f"told {len(told)} times about shards"

    def _writes(self, call: Call) -> Iterator[str]:
        """Yield what is wrong with a write: no guard, no reason, or only the leader sends it."""
        place = place_of(call.path) if call.method in {"PATCH", "DELETE"} else None
        if place is None or place.resource not in WRITTEN:
            return
        ref, body, stage = ObjectRef(place.namespace, place.name), call.body, self._actor.stage
        assert isinstance(body, dict)
        what = f"{call.method} {place.resource} {ref}"
        guard: Any = body.get("preconditions") or body.get("metadata") or {}
        if not guard.get("resourceVersion"):
            yield f"{what} without a guard"
        if call.method == "DELETE" and place.namespace == stage.history.shards:
            held = [each for each in stage.history.leases if each.shard == place.name]
            if held and held[-1].renewed > self._actor.clock.monotonic() - KEPT_SECONDS:
                yield f"{what}, which changed a moment ago"
        stored = stage.storage.of(GroupResource(place.group, place.resource)).get(ref)
        if stored is None or guard.get("resourceVersion") != stored.version:
            return
        if place.resource == "leases":
            yield from _taken(what, stored, body)
        if place.resource == "websites" and self._snapshot is not None:
            yield from self._moves(what, website(stored), guard, self._snapshot)

    def _moves(
        self, what: str, obj: PartialObject, meta: Any, snapshot: RingSnapshot
    ) -> Iterator[str]:
        owner, labels = snapshot.owner_of(obj), meta.get("labels") or {}
        if owner is not None and not self._actor.leads:
            yield f"{what}, which has an owner, without leading"
        if labels.get(self._drain) and not snapshot.is_draining(obj) and owner is not None:
            if snapshot.ring.spec.movement.paused:
                yield f"{what} drained while the ring is paused"
            elif not may_drain(snapshot, obj, owner):
                yield f"{what} drained from {owner} for no reason"
        target = labels.get(self._owner)
        if target and target in snapshot.placer.layout.closed:
            yield f"{what} assigned to {target}, which is cordoned"
        if target and self._is_full(target, obj.metadata.ref, snapshot):
            yield f"{what} assigned to {target}, which is full"

    def _is_full(self, shard: ShardName, placed: ObjectRef, snapshot: RingSnapshot) -> bool:
        """Return whether it knows that a shard has as many objects as the ring allows it.

        It knows what its watch has shown, and what it assigned itself a moment ago.
        """
        limit, tally = snapshot.ring.spec.placement.per_shard_capacity, snapshot.tally
        if limit is None or tally is None or shard not in snapshot.placer.layout.names:
            return False
        since = self._actor.clock.monotonic() - RESERVED_SECONDS
        mine = {ref for ref, at in self._assigned.items() if at > since}
        there = [
            ref
            for ref, stored in self._actor.stage.storage.of(SITES).items()
            if ref != placed and stored.meta.label(self._owner) == shard
            if ref in mine or tally.shown_on(snapshot.identity_of(website(stored))) == shard
        ]
        return len(there) >= limit


def website(stored: Stored) -> PartialObject:
    """Return a main object as the product reads it."""
    return replace(stored.as_(PartialObject), api_version="example.com/v1", kind="Website")


def may_drain(snapshot: RingSnapshot, obj: PartialObject, owner: ShardName) -> bool:
    """Return whether an object of a shard may be drained, where objects else stay."""
    layout, counts, spec = snapshot.placer.layout, snapshot.tally, snapshot.ring.spec
    shard = layout.by_name.get(owner)
    if counts is None or shard is None or owner not in layout.names or shard.evacuating:
        return True
    pin = obj.metadata.label(snapshot.pin_label)
    if pin not in {"", owner} or spec.rebalance.strategy is not RebalanceStrategy.NONE:
        return True
    limit = spec.placement.per_shard_capacity
    if limit is None and spec.placement.strategy is StrategyName.BOUNDED_LOAD:
        limit = ceil(counts.objects / max(1, len(layout.open))) + counts.pinned_on(owner)
        if layout.closed:
            return True  # what is on closed shards has no share
    entry = counts.entry(snapshot.identity_of(obj))
    is_assumed = entry is not None and entry.draining  # since the write is being sent
    return limit is not None and counts.settled_on(owner) + is_assumed > limit


def _taken(what: str, stored: Stored, body: Any) -> Iterator[str]:
    """Yield a Lease that changes its holder without a count of that."""
    before, after = stored.tree.get("spec"), body.get("spec") or {}
    assert isinstance(before, dict)
    is_taken = after.get("holderIdentity") == SHARDER_IDENTITY != before.get("holderIdentity")
    if is_taken and after.get("leaseTransitions") != (before.get("leaseTransitions") or 0) + 1:
        yield f"{what} taken in the same epoch"


def _answered(
    body: bytes, answer: bytes, snapshot: RingSnapshot, *, is_waking: bool
) -> Iterator[str]:
    """Yield what is wrong with the answer to a review of a main object."""
    request = msgspec.json.decode(body)["request"]
    if request["resource"]["resource"] != "websites":
        return
    response = msgspec.json.decode(answer)["response"]
    patch = base64.b64decode(response.get("patch") or b"W10=")
    operations = msgspec.json.decode(patch, type=list[Operation])
    try:
        patched = apply_json_patch(request["object"], operations)
    except PatchError as error:
        yield f"{request['operation']}: {error}"
        return
    after = msgspec.convert(patched, PartialObject, strict=False)
    what = f"{request['operation']} of {after.metadata.name}"
    owner = snapshot.owner_of(after)
    if request["operation"] == "CREATE":
        members, layout = snapshot.members, snapshot.placer.layout
        if owner in members.validity.duplicate_names:
            yield f"{what} assigned to {owner}, which two hold"
        elif owner is not None and owner not in layout.names - layout.closed.keys():
            yield f"{what} assigned to {owner}, which is not there, or cordoned"
        elif owner is not None and is_waking:
            yield f"{what} assigned to {owner} by what was seen before a pause"
        return
    before = msgspec.convert(request["oldObject"], PartialObject, strict=False)
    last, drained = snapshot.owner_of(before), snapshot.is_draining(before)
    pods = request["userInfo"].get("extra", {}).get("authentication.kubernetes.io/pod-name")
    known = snapshot.members.namespaces
    may = not pods or pods == [last] or pods[0] not in known  # a person, or perhaps the shard
    kept = owner == last and snapshot.is_draining(after) == drained
    if last is not None and not kept and not (drained and may):
        yield f"{what} by {request['userInfo']['username']} takes it from {last}"
