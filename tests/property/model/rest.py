"""What must come about when faults stop: L1 to L4, B4, and S9 at rest."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from tests.property.model.account import Account, drains, owner_of
from tests.property.model.core import SELECTED, ShardName
from tests.property.model.laws import Broken
from tests.property.model.mishaps import end_twin, repair
from tests.property.model.sharders import Sharder
from tests.property.model.world import TWIN, World
from tests.support.values import CONFIGMAPS, DRAIN, OWNER, SECRETS, WIDGETS

Unrest: TypeAlias = Callable[[World, Sharder], str | None]

REST_SECONDS = 240
"""Within which the world comes to rest: a Lease that runs out (30), one that was taken (30), one
that went away (30), and the passes in between."""

STEP_SECONDS = 5


def come_to_rest(world: World) -> None:
    """End all faults, let everybody do his work in turn, and expect rest before long.

    The webhook stays as it is: up, or down for good (L1).  L4 is that rest lasts: a further pass
    over everything writes nothing.
    """
    _end_faults(world)
    if world.counts:
        # First as far as that goes while no shard releases anything.
        _settle(world, world.go_on_without_shards, partial(_miscounted, acknowledged=False))
        _settle(world, world.go_on, partial(_miscounted, acknowledged=True))
    else:
        _settle(world, world.go_on, _unrest)


def _settle(world: World, go_on: Callable[[], None], unrest: Unrest) -> None:
    """Let time pass and everybody `go_on`, until nothing is written for a while."""
    leader, quiet = world.sharders[0], 0
    for _ in range(0, REST_SECONDS, STEP_SECONDS):
        world.let_pass(STEP_SECONDS)
        written = len(world.cluster.log)
        leader.care()
        go_on()
        is_still = len(world.cluster.log) == written and unrest(world, leader) is None
        quiet = quiet + 1 if is_still else 0
        if quiet == 2:
            return
    raise Broken(unrest(world, leader) or "L4: writes without end")


def _end_faults(world: World) -> None:
    world.twin_lives = False
    end_twin(world.cluster, TWIN)
    world.cluster.is_meddled_with = False
    world.cluster.pause(is_paused=False)
    for sharder in world.sharders:
        sharder.counting.is_slow = False
        while sharder.late:
            sharder.receive_late()
        sharder.reconnect(lists_anew=False)
    for shard in world.shards.values():
        shard.is_cut_off = False
        if shard.paused_at is not None:
            shard.resume(world.now)
        if not shard.is_running:
            repair(world.cluster, shard.ref)
    if not any(shard.is_running for shard in world.shards.values()):
        next(iter(world.shards.values())).start()


def _unrest(world: World, leader: Sharder) -> str | None:
    """Return what is not as it should be, None if everything is."""
    available = leader.view.available()
    owners = {}
    for resource in (WIDGETS, SECRETS):
        for obj in world.cluster.objects_of(resource):
            owner, ref = obj.metadata.label(OWNER), obj.metadata.ref
            owners[obj.metadata.uid] = owner
            if ref.namespace not in SELECTED:
                continue
            if owner not in available:
                return f"L1: {resource} {ref} is on {owner!r}, which is not available"
            if obj.metadata.has_label(DRAIN):
                return f"L2, L3: {resource} {ref} is draining on {owner}"
    for child in world.cluster.objects_of(CONFIGMAPS):
        controller, on = child.metadata.controller, child.metadata.label(OWNER)
        if controller is not None and owners[controller.uid] != on:
            return f"S9: {child.metadata.ref} is on {on!r}, its owner on {owners[controller.uid]}"
    return None


def _miscounted(world: World, leader: Sharder, *, acknowledged: bool) -> str | None:
    """Return the same for a ring with ceilings; `acknowledged`: whether shards end drains."""
    for sharder in world.sharders:
        differs = Account(world.cluster, sharder.view.snapshot()).differs()
        if differs is not None:
            return f"B4: a replica counts {differs}"
    account = Account(world.cluster, leader.view.snapshot())
    return (
        _overfull(account, account.owned if acknowledged else account.staying)
        or _waiting(account)
        or _draining(account, acknowledged=acknowledged)
        or _misplaced(world, account.available)
    )


def _overfull(account: Account, many: Counter[ShardName]) -> str | None:
    """B4: return who has too many."""
    for shard in account.available:
        limit = account.limit(shard)
        if limit is not None and many[shard] > limit:
            return f"B4: {shard} has {many[shard]} objects instead of {limit}"
    return None


def _waiting(account: Account) -> str | None:
    """L1: return what waits for a shard although one, or the one that it is pinned to, is free."""
    for obj in account.objects:
        owner, takers = owner_of(obj), account.takers(obj)
        keeping = account.available - account.evacuated
        is_placed = owner in keeping and account.goal(obj) in {None, owner}
        if takers and not is_placed and not (drains(obj) and owner in account.available):
            return f"L1: {obj.metadata.ref} is on {owner!r}, {takers} could have it"
    return None


def _draining(account: Account, *, acknowledged: bool) -> str | None:
    """L2, L3: return a drain that does not end, or is not needed."""
    for obj in account.objects:
        owner, ref = owner_of(obj), obj.metadata.ref
        if not drains(obj) or owner not in account.available:
            continue
        if acknowledged:
            return f"L2, L3: {ref} is draining on {owner}"
        is_in_place = account.goal(obj) in {None, owner} and not account.must_leave(obj)
        is_in_place &= owner not in account.evacuated or not account.takers(obj)
        if is_in_place and account.staying[owner] != account.limit(owner):
            return f"L3: {ref} is draining on {owner}, which could keep it"
    return None


def _misplaced(world: World, available: frozenset[ShardName]) -> str | None:
    """S9: return what is not where its owner is."""
    owners = {obj.metadata.uid: owner_of(obj) for obj in world.cluster.objects_of(SECRETS)}
    for child in world.cluster.objects_of(CONFIGMAPS):
        controller = child.metadata.controller
        on = owners[controller.uid] if controller is not None else ShardName("")
        if on in available and owner_of(child) != on:
            return f"S9: {child.metadata.ref} is on {owner_of(child)!r}, its owner on {on}"
    return None
