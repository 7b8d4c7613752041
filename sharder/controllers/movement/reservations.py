"""Reserve capacity in the tally while a write is in flight."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from sharder.core.api.meta import PartialObject, Resource
from sharder.core.movement.planner import reservation_of
from sharder.core.movement.step import Step
from sharder.core.ring.snapshot import RingSnapshot, Role


@contextmanager
def reserving(
    snapshot: RingSnapshot, resource: Resource, obj: PartialObject, step: Step
) -> Iterator[Callable[[], None]]:
    """Count a main object as it will be after the write; restore its count if the write fails.

    Yields a function to call if nothing was written after all.
    """
    reservation = None
    if snapshot.roles[resource.id] is not Role.CONTROLLED:
        reservation = reservation_of(snapshot, obj, step)
    if snapshot.tally is None or reservation is None:
        yield _nothing
        return
    undo = partial(snapshot.tally.give_back, reservation)
    snapshot.tally.assume(reservation)
    try:
        yield undo
    except BaseException:
        undo()
        raise


def _nothing() -> None:
    """Undo nothing: nothing was reserved."""
