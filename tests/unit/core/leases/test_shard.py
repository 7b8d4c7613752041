"""Facts about `sharder.core.leases.shard`: what shards say about themselves."""

from collections.abc import Mapping
from datetime import timedelta

import pytest
from msgspec import structs

from sharder.core.api.lease import Lease
from sharder.core.api.meta import ObjectMeta
from sharder.core.leases.shard import (
    MAX_CEILING,
    Shard,
    can_take_over,
    invalid_annotations,
    shard_of,
)
from sharder.core.names import (
    CAPACITY_ANNOTATION,
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    EVACUATE_ON_STOP,
    POOL_ANNOTATION,
    PROBLEM_ANNOTATION,
    REVISION_LABEL,
    WEIGHT_ANNOTATION,
)
from tests.support.values import NOW, A, lease


def saying(
    annotations: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None
) -> Lease:
    """The Lease of the shard A."""
    meta = ObjectMeta(name=A, annotations=dict(annotations or {}), labels=dict(labels or {}))
    return Lease(metadata=meta, spec=lease().spec)


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        (POOL_ANNOTATION, "a b", "'a b' is not a valid label value"),
        (WEIGHT_ANNOTATION, "much", "'much' is not a quantity such as 4, 500m or 8Gi"),
        (WEIGHT_ANNOTATION, "-1", "'-1' is not a quantity such as 4, 500m or 8Gi"),
        (WEIGHT_ANNOTATION, "0", "'0' is not between 0.001 and 1000000"),
        (WEIGHT_ANNOTATION, "1000001", "'1000001' is not between 0.001 and 1000000"),
        (CAPACITY_ANNOTATION, "6000", "'6000' is not of the form resource=quantity"),
        (CORDONED_ANNOTATION, "yes", "'yes' is neither true nor false"),
    ],
)
def test_what_cannot_be_understood_is_ignored_and_named(key: str, text: str, why: str) -> None:
    assert shard_of(saying({key: text})) == Shard(name=A)
    assert list(invalid_annotations(saying({key: text}))) == [
        f"the annotation {key} is ignored: {why}"
    ]


def test_a_shard_says_why_it_cannot_work_in_a_line_that_a_terminal_can_show() -> None:
    assert shard_of(saying({PROBLEM_ANNOTATION: "cannot watch x"})).problem == "cannot watch x"
    assert shard_of(saying({PROBLEM_ANNOTATION: "\x1b[31mred\n"})).problem == ""


@pytest.mark.parametrize(
    ("other", "can"),
    [
        (lease(A), True),
        (lease(A, holder=""), False),
        (lease(A, holder="shardlease-controller"), False),
        (lease(A, renewed=NOW - timedelta(seconds=16)), False),
        (lease(A, seconds=4000), False),
        (saying({PROBLEM_ANNOTATION: "cannot watch"}), False),
        (saying({PROBLEM_ANNOTATION: "\n"}), False),
        (saying({CORDONED_ANNOTATION: "true"}), False),
        (saying({EVACUATE_ANNOTATION: EVACUATE_ON_STOP}), False),
    ],
)
def test_a_shard_can_take_over_if_it_holds_its_lease_and_has_no_problem(
    other: Lease, can: bool
) -> None:
    assert can_take_over(other, NOW) is can


@pytest.mark.parametrize("capacity", ["objects=1e99", f"objects={MAX_CEILING + 1}"])
def test_a_ceiling_beyond_what_any_cluster_holds_is_as_good_as_none(capacity: str) -> None:
    assert shard_of(saying({CAPACITY_ANNOTATION: capacity})).ceiling == MAX_CEILING


@pytest.mark.parametrize(
    ("value", "evacuating"), [("true", True), (EVACUATE_ON_STOP, True), ("false", False)]
)
def test_a_shard_is_evacuated_when_people_say_so_or_it_is_about_to_stop(
    value: str, evacuating: bool
) -> None:
    said = saying({EVACUATE_ANNOTATION: value})

    assert shard_of(said) == Shard(name=A, evacuating=evacuating)
    assert list(invalid_annotations(said)) == []


def test_a_revision_of_a_lease_that_was_never_taken_is_the_oldest() -> None:
    said = saying(labels={REVISION_LABEL: "7f9c"})
    never = structs.replace(said, spec=structs.replace(said.spec, acquire_time=None))

    assert shard_of(never).since == 0.0
