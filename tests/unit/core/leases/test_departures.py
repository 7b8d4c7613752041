"""Facts about `core.leases.departures`: what is gone, in order, at a cost that does not grow."""

from typing_extensions import override

from sharder.core.leases.index import MAX_DEPARTED, RingLeases
from sharder.core.names import ObjectRef

MANY = 100


def ref(number: int) -> ObjectRef:
    return ObjectRef("default", f"lease-{number}")


class Moment(float):
    """A moment that counts how often moments are compared."""

    compared = 0

    @override
    def __lt__(self, other: float) -> bool:
        Moment.compared += 1
        return float(self) < float(other)

    @override
    def __gt__(self, other: float) -> bool:
        Moment.compared += 1
        return float(self) > float(other)


def test_a_lease_that_goes_is_not_compared_with_all_that_have_gone() -> None:
    leases = RingLeases()
    for number in range(MAX_DEPARTED):
        leases.depart(ref(number), Moment(number))

    Moment.compared = 0
    for number in range(MANY):
        leases.depart(ref(MAX_DEPARTED + number), Moment(MAX_DEPARTED + number))

    assert len(leases.departed) == MAX_DEPARTED
    assert leases.doubted_until == MANY - 1
    assert Moment.compared <= 40 * MANY
