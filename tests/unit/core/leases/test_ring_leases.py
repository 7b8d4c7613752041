"""Facts about how many forged Leases are kept, and what follows where one has no room."""

import tracemalloc
from collections.abc import Iterator
from functools import cache

import msgspec
import pytest
from msgspec.structs import replace

from sharder.core.api.lease import Lease, read_lease
from sharder.core.leases.membership import Members, Standing
from sharder.core.leases.register import Membership
from sharder.core.leases.ring_leases import MAX_KEPT
from sharder.core.leases.validity import MAX_LEASES
from sharder.core.names import RING_LABEL, SHARDER_IDENTITY, RingName, ShardName
from tests.support.values import DEMO, A, B, C, lease

OLD, YOUNG = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
AT = 1000.0
"""When strangers are gone for a process that started at 0."""
MANY = MAX_KEPT + 100


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
    return len(membership.refs(DEMO))


def members(membership: Membership, at: float = AT) -> Members:
    return membership.members(DEMO, at)


def test_a_bounded_number_of_leases_is_kept_whatever_they_are() -> None:
    shards = watching(*forged())
    released = watching(*forged(holder=""))
    strangers = watching(*forged(holder="another-client"))
    foreign = watching(*forged(namespace="evil"), namespaces=("default",))

    assert {kept(each) for each in (shards, released, strangers, foreign)} == {MAX_KEPT}


@pytest.mark.slow
def test_ten_thousand_forged_leases_take_9_megabytes_at_most_however_large_they_are() -> None:
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

    assert kept(membership) == MAX_KEPT
    assert current < 9_000_000


def test_leases_of_rings_that_do_not_exist_are_bounded_all_together() -> None:
    membership = Membership(0.0)

    for number in range(MANY):
        membership.see(lease(of=f"ring-{number}", namespace=f"ns-{number}"), AT)

    assert sum(len(membership.refs(RingName(f"ring-{n}"))) for n in range(MANY)) == MAX_KEPT


def test_what_is_forged_outside_the_ring_s_namespaces_changes_no_standing() -> None:
    membership = watching(lease(A), namespaces=("default",))
    before = membership.members(DEMO, AT, namespaces=("default",))

    for each in forged(namespace="evil"):
        membership.see(each, AT)
    after = membership.members(DEMO, AT, namespaces=("default",))

    assert after == before
    assert after.standing_of(C) is Standing.GONE


def test_shards_in_a_namespace_that_is_given_up_are_not_taken_for_gone() -> None:
    many = MAX_LEASES + 1
    membership = watching(*(lease(f"s-{n}", namespace="former") for n in range(many)))
    members(membership)

    after = membership.members(DEMO, AT, namespaces=("default",))
    membership.forget(lease("s-0", namespace="former").metadata.ref)
    later = membership.members(DEMO, AT, namespaces=("default",))

    standings = {after.standing_of(ShardName(f"s-{number}")) for number in range(many)}
    assert standings == {Standing.LEAVING}
    assert later.standing_of(ShardName("s-0")) is Standing.MISSING


# In doubt


def test_a_shard_whose_lease_has_no_room_is_missing_while_it_renews() -> None:
    membership = watching(*forged(), lease(A, holder="", created=OLD))
    before = members(membership, AT + 31).standing_of(B)

    membership.see(lease(B), AT + 31)
    renewed = [members(membership, AT + at).standing_of(B) for at in (31, 60, 61)]

    assert before is Standing.GONE
    assert renewed == [Standing.MISSING, Standing.MISSING, Standing.GONE]


def test_a_released_lease_says_nothing_while_another_of_its_name_has_no_room() -> None:
    membership = watching(lease(A, holder="", created=OLD), *forged())
    released = members(membership, AT + 31).standing_of(A)

    membership.see(lease(A, namespace="z", created="2026-12-01T00:00:00Z"), AT + 31)

    assert released is Standing.GONE
    assert members(membership, AT + 31).standing_of(A) is Standing.MISSING
    assert membership.is_back(DEMO, A) is False


def test_a_lease_without_room_can_have_been_deleted_unseen_before_a_list() -> None:
    membership = watching(*forged())

    membership.replace([lease(B)], AT + 60)

    assert members(membership, AT + 89).standing_of(A) is Standing.MISSING
    assert members(membership, AT + 90).standing_of(A) is Standing.GONE
    membership.replace([lease(B)], AT + 99)
    assert members(membership, AT + 99).standing_of(A) is Standing.GONE, "now all had room"


@pytest.mark.parametrize("is_list", [True, False])
def test_a_shard_can_have_come_back_and_lost_its_lease_unseen_before_a_list_or_an_answer(
    *, is_list: bool
) -> None:
    membership = watching(lease(A, holder=""), lease(B))

    if is_list:
        membership.replace([lease(B)], AT + 60)
    else:
        membership.forget(lease(A).metadata.ref, AT + 60)

    assert members(membership, AT + 89).standing_of(A) is Standing.MISSING
    assert members(membership, AT + 90).standing_of(A) is Standing.GONE


def test_shards_are_kept_however_many_other_leases_there_are() -> None:
    membership = watching(*forged(holder=""))

    membership.see(lease(A), AT)

    assert members(membership).standing_of(A) is Standing.AVAILABLE


def test_a_shard_that_holds_a_lease_unseen_is_missing_until_that_is_seen() -> None:
    membership = watching()

    membership.answered(lease(A), AT)
    unseen = membership.is_back(DEMO, A), members(membership).standing_of(A)
    membership.see(lease(A), AT + 1)
    membership.answered(lease(A), AT + 1)  # the watch was faster
    membership.see(lease(A, holder=""), AT + 2)

    assert unseen == (True, Standing.MISSING)
    assert members(membership, AT + 2).standing_of(A) is Standing.GONE, "it has released it"


def test_a_late_event_does_not_undo_what_the_api_server_answered() -> None:
    def at(version: str, holder: str) -> Lease:
        found = lease(A, holder=holder)
        return replace(found, metadata=replace(found.metadata, resource_version=version))

    membership = watching(at("5", A))
    membership.answered(at("9", SHARDER_IDENTITY), AT + 1)
    membership.see(at("7", A), AT + 2)
    membership.answered(lease(B, holder=""), AT + 2)

    assert members(membership, AT + 2).standing_of(A) is Standing.GONE
    assert kept(membership) == 1


def test_released_leases_of_rings_that_are_made_later_leave_no_doubt() -> None:
    membership = Membership(0.0)
    membership.replace(list(forged(MAX_KEPT + 1, holder="")), AT)

    assert members(membership).standing_of(C) is Standing.GONE


def test_a_lease_that_left_before_its_ring_was_made_may_have_a_shard_at_work() -> None:
    membership = Membership(0.0)
    membership.see(lease(A), AT)
    membership.forget(lease(A).metadata.ref)

    assert members(membership, AT + 29).standing_of(A) is Standing.MISSING
    assert members(membership, AT + 30).standing_of(A) is Standing.GONE


# Departures


def test_departures_are_bounded_and_who_is_forgotten_may_be_working_as_long() -> None:
    membership = watching(lease(A))

    for number in range(MAX_LEASES + 10):
        membership.see(lease(f"x-{number}"), AT + number / 1000)
        membership.forget(lease(f"x-{number}").metadata.ref)

    first = ShardName("x-0")
    assert len(membership._rings[DEMO].departed) == MAX_LEASES
    assert members(membership, AT + 3).standing_of(first) is Standing.MISSING
    assert members(membership, AT + 60).standing_of(first) is Standing.GONE


# What is worked out again


def test_members_are_another_object_once_a_standing_has_run_out() -> None:
    membership = watching(lease(A), lease(B))
    membership.forget(lease(B).metadata.ref)
    before = members(membership)

    assert members(membership, AT + 29) is before
    assert membership.next_change() == AT + 30
    assert membership.due(AT + 29) == frozenset()
    assert membership.due(AT + 30) == {DEMO}
    assert membership.due(AT + 30) == frozenset()
    assert members(membership, AT + 30) is not before


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


def test_a_shard_whose_lease_another_client_takes_when_there_is_no_room_is_not_gone() -> None:
    membership = watching(*forged(MAX_KEPT, holder="another-client"), lease(A))
    membership.see(lease(A, holder="another-client"), AT + 1)

    assert members(membership, AT + 1).standing_of(A) is Standing.MISSING
    assert kept(membership) == MAX_KEPT


def test_a_shard_worked_last_before_it_released_or_lost_its_lease_or_two_durations_after() -> None:
    membership = watching(lease(A), lease(B), lease(C))
    membership.see(lease(A, holder=""), AT + 5)
    membership.see(lease(B, holder=SHARDER_IDENTITY, seconds=30), AT + 40)
    membership.forget(lease(C).metadata.ref)
    membership.see(lease(A, holder=SHARDER_IDENTITY, seconds=30), AT + 50)
    membership.see(lease(A, holder=""), AT + 60)

    members(membership, AT + 60)
    assert [membership.last_worked(DEMO, each) for each in (A, B, C)] == [AT + 5, AT, AT + 30]
    membership.answered(lease(C), AT + 60)
    members(membership, AT + 60)
    assert membership.last_worked(DEMO, C) is None, "it can work again"
