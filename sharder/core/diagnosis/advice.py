"""What a person can do about an object that is not where it belongs."""

from sharder.core.leases.membership import Standing
from sharder.core.movement.desired import choose
from sharder.core.movement.planner import PAUSED
from sharder.core.movement.step import Action, Withdraw
from sharder.core.preview.observe import is_unowned
from sharder.core.preview.state import Planned
from sharder.core.ring.snapshot import RingSnapshot


def advice(snapshot: RingSnapshot, planned: Planned) -> str | None:
    """Return the next step of a person, None if there is none to make."""
    owner, ring = planned.current, snapshot.name
    if planned.key is None:
        return (
            "nothing: only objects with a controller get a shard; if it was restored from a "
            "backup, let its parent adopt it"
        )
    standing = Standing.GONE if owner is None else snapshot.members.standing_of(owner)
    if standing is Standing.GONE:
        return (
            f"start shards, or change what the object asks for: sharder shards {ring}"
            if is_unowned(snapshot, planned.to)
            else f"nothing: the leader assigns it within seconds; if not: sharder check {ring}"
        )
    if standing is Standing.MISSING:
        return f"wait: after two Lease durations {owner} has surely stopped, or is back"
    if isinstance(planned.step, Withdraw):
        return "nothing: the leader withdraws the drain within seconds"
    if snapshot.is_draining(planned.obj):
        return (
            f"wait until {owner} has ended its work on it and removes both labels; if that takes "
            f"long, read its log, and see what else it drains: sharder objects {ring} --draining "
            f"--shard {owner}"
        )
    if planned.action in {Action.KEEP, Action.NONE}:
        waits = planned.step == PAUSED and choose(snapshot, planned.obj).shard not in {None, owner}
        return f"let it move: sharder resume {ring}" if waits else None
    return f"nothing: the leader moves it within its limits; preview all: sharder plan {ring}"
