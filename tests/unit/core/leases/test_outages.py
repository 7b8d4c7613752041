"""Facts about `sharder.core.leases.outages` that need many outages."""

from sharder.core.leases.outages import Outages


def test_of_more_outages_than_are_kept_the_oldest_two_become_one() -> None:
    spans = [(10.0 * number, 10.0 * number + 1) for number in range(129)]
    outages = Outages()

    for begin, end in spans:
        outages = outages.noted(begin, end)

    assert outages.spans == ((0.0, 11.0), *spans[2:])
