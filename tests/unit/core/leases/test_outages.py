"""Facts about `sharder.core.leases.outages` that need many outages."""

from sharder.core.leases.outages import Outages, Sight


def test_of_more_outages_than_are_kept_the_oldest_two_become_one() -> None:
    spans = [(10.0 * number, 10.0 * number + 1) for number in range(129)]
    outages = Outages()

    for begin, end in spans:
        outages = outages.noted(begin, end)

    assert outages.spans == ((0.0, 11.0), *spans[2:])


def test_the_view_of_a_process_that_was_paused_is_stale_until_it_has_caught_up() -> None:
    sight = Sight(0.0)
    sight.runs(2.9)
    assert not sight.is_stale(5.8)
    assert sight.is_stale(5.9)

    sight.runs(5.9)

    assert sight.is_stale(6.8)
    sight.runs(6.9)
    assert not sight.is_stale(6.9)
