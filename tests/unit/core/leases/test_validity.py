"""Facts about `sharder.core.leases.validity`: which Leases of a ring count."""

import pytest

from sharder.core.leases.state import problem_of
from sharder.core.leases.validity import MAX_LEASES, classify
from sharder.core.names import SHARDER_IDENTITY
from tests.support.values import SELF, A, B, C, lease

INT32 = (-(2**31), 2**31 - 1)


def test_only_the_oldest_leases_count() -> None:
    old = [lease(f"old-{n}", created="2026-01-01T00:00:00Z") for n in range(MAX_LEASES)]
    young = [lease(f"a-{n}", created="2026-01-02T00:00:00Z") for n in range(2)]

    validity = classify([*young, *old], ())

    assert len(validity.valid) == MAX_LEASES
    assert sorted(validity.problems) == [each.metadata.ref for each in young]


@pytest.mark.parametrize(("holder", "seconds"), [("", 15), ("another-client", 15), (SELF, 0)])
def test_leases_that_make_no_working_shard_push_none_out(holder: str, seconds: int) -> None:
    forged = [
        lease(f"f-{n}", holder=holder, seconds=seconds, created="2020-01-01T00:00:00Z")
        for n in range(MAX_LEASES + 1)
    ]

    validity = classify([*forged, lease(A, created="2026-01-01T00:00:00Z")], ())

    assert lease(A).metadata.ref not in validity.problems


def test_a_name_that_is_held_twice_is_named_with_what_to_do() -> None:
    validity = classify([lease(A), lease(A, namespace="another"), lease(B)], ())

    assert validity.duplicate_names == {A}
    assert validity.name_conflict is not None
    assert A in validity.name_conflict
    assert "shardNamespaces" in validity.name_conflict


def test_a_name_held_once_or_elsewhere_is_no_twin() -> None:
    released = [lease(A), lease(A, namespace="another", holder="")]
    foreign = [lease(C), lease(C, namespace="another")]

    assert classify(released, ()).name_conflict is None
    assert classify(foreign, ["default"]).duplicate_names == frozenset()


@pytest.mark.parametrize("seconds", [0, -1, 3601, 7200, *INT32])
def test_a_held_lease_with_a_duration_out_of_range_makes_no_shard(seconds: int) -> None:
    assert problem_of(lease(seconds=seconds)) == "leaseDurationSeconds must be 1 to 3600"


def test_a_held_lease_without_its_times_makes_no_shard() -> None:
    incomplete = [lease(seconds=None), lease(acquired=None), lease(renewed=None)]

    assert all("missing" in (problem_of(one) or "") for one in incomplete)


def test_a_lease_that_we_hold_may_last_longer() -> None:
    assert problem_of(lease(holder=SHARDER_IDENTITY, seconds=7200)) is None


@pytest.mark.parametrize("holder", [SELF, ""])
@pytest.mark.parametrize("name", ["x" * 64, "a..b/c", "-a", ""])
def test_a_lease_whose_name_is_no_label_value_makes_no_shard(name: str, holder: str) -> None:
    assert "label value" in (problem_of(lease(name, holder=holder)) or "")


def test_no_shard_may_bear_the_name_of_the_sharder() -> None:
    assert "reserved" in (problem_of(lease(SHARDER_IDENTITY)) or "")
