"""What must come about when faults stop: L1 to L4, and S9 at rest."""

from tests.property.model.core import SELECTED
from tests.property.model.laws import Broken
from tests.property.model.mishaps import end_twin, repair
from tests.property.model.sharders import Sharder
from tests.property.model.world import TWIN, World
from tests.support.values import CONFIGMAPS, DRAIN, OWNER, SECRETS, WIDGETS

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
    leader, quiet = world.sharders[0], 0
    for _ in range(0, REST_SECONDS, STEP_SECONDS):
        world.let_pass(STEP_SECONDS)
        written = len(world.cluster.log)
        leader.care()
        world.go_on()
        is_still = len(world.cluster.log) == written and _unrest(world, leader) is None
        quiet = quiet + 1 if is_still else 0
        if quiet == 2:
            return
    raise Broken(_unrest(world, leader) or "L4: writes without end")


def _end_faults(world: World) -> None:
    world.twin_lives = False
    end_twin(world.cluster, TWIN)
    world.cluster.is_meddled_with = False
    for sharder in world.sharders:
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
