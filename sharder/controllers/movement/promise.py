"""What is about to be written counts from now on: nobody else is given the same room."""

from collections.abc import Iterator
from contextlib import contextmanager

from sharder.api.meta import PartialObject
from sharder.api.resource import Resource
from sharder.plan import Step
from sharder.planner import reservation_of
from sharder.snapshot import RingSnapshot, Role


@contextmanager
def counting(
    snapshot: RingSnapshot, resource: Resource, obj: PartialObject, step: Step
) -> Iterator[None]:
    """Count a main object as it will be, at once, and as it was if the write fails."""
    reservation = None
    if snapshot.roles[resource.id] is not Role.CONTROLLED:
        reservation = reservation_of(snapshot, obj, step)
    tally = snapshot.tally
    if tally is None or reservation is None:
        yield
        return
    promised = tally.pending(reservation.identity)
    tally.assume(reservation)
    try:
        yield
    except BaseException:
        tally.forget(reservation.identity)
        if promised is not None:
            tally.assume(promised)
        raise
