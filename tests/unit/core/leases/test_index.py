"""Facts about how much of forged Leases is kept, and what follows where some are forgotten."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from functools import cache

import msgspec
import pytest

from sharder.core.api.lease import Lease, read_lease
from sharder.core.leases.index import MAX_HELD, MAX_OTHERS, Known, judged
from sharder.core.leases.membership import Members, Standing
from sharder.core.leases.observed import ObservedLease
from sharder.core.leases.register import MAX_GUESTS, Membership
from sharder.core.leases.validity import MAX_LEASES
from sharder.core.names import (
    RING_LABEL,
    STATE_LABEL,
    ZONE_LABEL,
    RingName,
    ShardName,
)
from tests.support.values import DEMO, NOW, A, B, C, lease

OLD, YOUNG = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
AT = 1000.0
"""When strangers are gone for a process that started at 0."""
MANY = MAX_LEASES + 100
SECOND = timedelta(seconds=1)


@cache
def forged(
    many: int = MANY, *, holder: str | None = None, namespace: str = "default", of: str = DEMO
) -> tuple[Lease, ...]:
    """Young Leases that are held by shards of their name, unless `holder` says otherwise."""
    names = [f"forged-{number}" for number in range(many)]
    held = {name: name if holder is None else holder for name in names}
    return tuple(
        lease(name, holder=held[name], namespace=namespace, of=of, created=YOUNG) for name in names
    )


def watching(*leases: Lease, namespaces: tuple[str, ...] = ()) -> Membership:
    membership = Membership(0.0)
    membership.expect(DEMO, namespaces)
    membership.replace(leases, AT)
    return membership


def kept(membership: Membership) -> int:
    return len(membership.observed_leases(DEMO))


def members(membership: Membership, at: float = AT, before: Members | None = None) -> Members:
    return membership.members(DEMO, at, before=before)


def test_a_bounded_number_of_leases_is_kept_whatever_they_are() -> None:
    shards = watching(*forged())
    released = watching(*forged(holder=""))
    strangers = watching(*forged(holder="another-client"))
    foreign = watching(*forged(namespace="evil"), namespaces=("default",))

    assert kept(shards) == MAX_HELD
    assert kept(released) == kept(strangers) == MAX_OTHERS
    assert kept(foreign) == MAX_OTHERS


def test_ten_thousand_forged_leases_take_5_megabytes_at_most_however_large_they_are() -> None:
    def fat() -> Iterator[Lease]:
        spec = {"leaseDurationSeconds": 15, "acquireTime": YOUNG, "renewTime": YOUNG}
        labels = {RING_LABEL: DEMO, **{f"example.com/{number}": "x" * 63 for number in range(20)}}
        for number in range(10_000):
            name = f"forged-{number}"
            metadata = {
                "name": name, "namespace": "default", "uid": name, "creationTimestamp": YOUNG,
                "labels": labels, "annotations": {"example.com/note": name * 1000},
            }  # fmt: skip
            body = {"metadata": metadata, "spec": {**spec, "holderIdentity": name}}
            yield read_lease(msgspec.json.encode(body))

    membership = Membership(0.0)
    membership.expect(DEMO, ())
    tracemalloc.start()
    for each in fat():
        membership.see(each, AT)
    members(membership)
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept(membership) == MAX_HELD
    assert current < 5_000_000


def test_leases_of_rings_that_do_not_exist_are_bounded_all_together() -> None:
    membership = Membership(0.0)

    for number in range(MANY):
        membership.see(lease(of=f"ring-{number}", namespace=f"ns-{number}"), AT)

    assert (
        sum(len(membership.observed_leases(RingName(f"ring-{n}"))) for n in range(MANY))
        == MAX_GUESTS
    )


def test_rings_that_do_not_exist_leave_nothing_behind() -> None:
    membership = Membership(0.0)

    for number in range(10):
        membership.see(lease(of=f"ring-{number}"), AT)
        membership.forget(lease(of=f"ring-{number}"), AT)

    assert membership._rings == {}


def test_a_name_that_was_forgotten_in_one_namespace_is_missing_in_all() -> None:
    membership = watching(lease(A, created=OLD), *forged(MAX_HELD - 1))
    membership.see(lease(A, holder="", created=OLD), AT)
    membership.see(lease(B, created=OLD), AT)

    membership.see(lease(A, namespace="z", created="2026-12-01T00:00:00Z"), AT)

    assert members(membership).standing_of(A) is Standing.MISSING


def test_what_is_forged_outside_the_ring_s_namespaces_changes_no_standing() -> None:
    membership = watching(lease(A), namespaces=("default",))
    before = membership.members(DEMO, AT, namespaces=("default",))

    for each in forged(namespace="evil"):
        membership.see(each, AT)
    after = membership.members(DEMO, AT, namespaces=("default",), before=before)

    assert after == before
    assert after.standing_of(C) is Standing.GONE


def test_shards_in_a_namespace_that_is_given_up_are_not_taken_for_gone() -> None:
    many = MAX_OTHERS + 1
    membership = watching(*(lease(f"s-{n}", namespace="former") for n in range(many)))
    before = members(membership)

    after = membership.members(DEMO, AT, namespaces=("default",), before=before)

    standings = {after.standing_of(ShardName(f"s-{number}")) for number in range(many)}
    assert standings == {Standing.LEAVING, Standing.MISSING}


# In a crowded ring


def test_an_unknown_shard_of_a_crowded_ring_is_gone_some_time_after_the_api_server_was_asked() -> (
    None
):
    membership = watching(*forged())
    unknown = members(membership).standing_of(A)

    membership.absent(DEMO, A, AT)

    assert unknown is members(membership, AT + 29).standing_of(A) is Standing.MISSING
    assert members(membership, AT + 30).standing_of(A) is Standing.GONE
    assert members(membership, AT + 3000).standing_of(A) is Standing.GONE
    assert members(membership, AT + 3000).standing_of(B) is Standing.MISSING


def test_a_shard_that_holds_a_lease_unseen_is_missing() -> None:
    membership = watching(*forged())
    membership.absent(DEMO, A, AT)

    membership.returned(DEMO, A, AT + 60)

    assert members(membership, AT + 60).standing_of(A) is Standing.MISSING


def test_a_list_that_was_seen_says_more_than_a_question() -> None:
    membership = watching(lease(A, holder=""))

    membership.absent(DEMO, B, AT)

    assert members(membership).standing_of(B) is Standing.GONE


def test_released_leases_of_rings_that_are_made_later_leave_no_doubt() -> None:
    membership = Membership(0.0)
    membership.replace(list(forged(MAX_GUESTS + 1, holder="")), AT)

    assert members(membership).standing_of(C) is Standing.GONE


def test_a_lease_that_left_before_its_ring_was_made_may_have_a_shard_at_work() -> None:
    membership = Membership(0.0)
    membership.see(lease(A), AT)
    membership.forget(lease(A), AT)

    assert members(membership, AT + 29).standing_of(A) is Standing.MISSING
    assert members(membership, AT + 30).standing_of(A) is Standing.GONE


def test_a_ring_may_be_made_while_a_list_is_judged() -> None:
    membership = watching(*forged(MAX_HELD + 1))

    for number, _ in enumerate(membership.replacing([lease(A)], AT + 1)):
        membership.expect(RingName(f"ring-{number}"), ())

    assert members(membership, AT + 31).standing_of(C) is Standing.GONE


# Departures


def test_departures_are_bounded_and_who_is_forgotten_may_be_working_as_long() -> None:
    membership = watching(lease(A))

    for number in range(MAX_OTHERS + 10):
        membership.see(lease(f"x-{number}"), AT + number / 1000)
        membership.forget(lease(f"x-{number}"), AT + 2)

    first = ShardName("x-0")
    assert len(membership._rings[DEMO].leases.departed) == MAX_OTHERS
    assert members(membership, AT + 3).standing_of(first) is Standing.MISSING
    assert members(membership, AT + 60).standing_of(first) is Standing.GONE


# What is worked out again


def test_members_are_another_object_once_a_standing_has_run_out() -> None:
    membership = watching(lease(A), lease(B))
    membership.forget(lease(B), AT)
    before = members(membership)

    assert membership.due(AT, AT + 29) == frozenset()
    assert membership.due(AT + 29, AT + 30) == {DEMO}
    assert members(membership, AT + 29, before) is before
    assert members(membership, AT + 30, before) is not before


def test_a_shard_is_back_from_when_its_lease_is_seen_until_the_members_know() -> None:
    membership = watching(lease(A, holder=""), lease(B))
    members(membership)
    membership.see(lease(A), AT)
    membership.see(lease(C), AT)
    found = [membership.is_back(DEMO, shard) for shard in (A, B, C)]
    members(membership)

    assert found == [True, False, True]
    assert not membership.is_back(DEMO, A)


def test_a_lease_that_is_forged_elsewhere_brings_no_shard_back() -> None:
    membership = watching(lease(A, holder=""), namespaces=("default",))
    membership.members(DEMO, AT, namespaces=("default",))

    membership.see(lease(A, namespace="evil"), AT)

    assert not membership.is_back(DEMO, A)
    assert not membership.is_back(RingName("unknown"), A)


READY = {STATE_LABEL: "ready"}


def watched(shown: Lease) -> Known:
    """A Lease that was seen to be renewed at 100."""
    return replace(judged(shown, None, 100.0), observed=ObservedLease(shown, 100.0, renewed=True))


RENEWED = lease(renewed=NOW + SECOND, labels=READY)
WATCHED = watched(lease(labels=READY))


def test_a_renewal_in_time_of_a_ready_shard_is_a_mere_renewal() -> None:
    assert WATCHED.is_merely_renewed(RENEWED, 100.0)
    assert WATCHED.is_merely_renewed(RENEWED, 114.9)


@pytest.mark.parametrize(
    ("before", "seen", "at"),
    [
        pytest.param(WATCHED, RENEWED, 115.0, id="it comes late"),
        pytest.param(judged(WATCHED.lease, None, 100.0), RENEWED, 101.0, id="it is the first"),
        pytest.param(WATCHED, lease(renewed=None, labels=READY), 101.0, id="it has no time"),
        pytest.param(WATCHED, lease(seconds=9, labels=READY), 101.0, id="another duration"),
        pytest.param(WATCHED, lease(acquired=NOW + SECOND, labels=READY), 101.0, id="acquired"),
        pytest.param(WATCHED, lease(holder="", labels=READY), 101.0, id="released"),
        pytest.param(WATCHED, lease(of="other", labels=READY), 101.0, id="another ring"),
        pytest.param(WATCHED, lease(labels={**READY, ZONE_LABEL: "a"}), 101.0, id="moved"),
        pytest.param(
            WATCHED, lease(created="2026-01-01T00:00:00Z", labels=READY), 101.0, id="new"
        ),
        pytest.param(
            watched(lease(labels={STATE_LABEL: "expired"})),
            lease(renewed=NOW + SECOND, labels={STATE_LABEL: "expired"}),
            101.0,
            id="it is shown as expired",
        ),
        pytest.param(
            watched(lease(seconds=0, labels=READY)),
            lease(seconds=0, renewed=NOW + SECOND, labels=READY),
            101.0,
            id="it is invalid",
        ),
    ],
)
def test_whatever_else_is_new_with_a_renewal_makes_it_more(
    before: Known, seen: Lease, at: float
) -> None:
    assert not before.is_merely_renewed(seen, at)
