"""Facts about `sharder.core.diagnosis.fence`."""

from collections.abc import Mapping

import pytest

from sharder.core.diagnosis.fence import FenceFacts, fence
from sharder.core.diagnosis.finding import Unread
from sharder.core.fence.policy import digest_of
from sharder.core.fence.probe import Fence, NoFence, Proof, UnknownFence
from sharder.core.names import ObjectRef
from tests.support.values import A, B, ring

USER, OTHER = (f"system:serviceaccount:default:{name}" for name in ("my-controller", "other"))
STANDS = Fence(digest=digest_of(ring()), users=(USER,))
ON_A, ON_B = ObjectRef("default", A), ObjectRef("default", B)


def findings(
    proof: Proof | Unread, users: Mapping[ObjectRef, str | None] | Unread
) -> list[tuple[str, str]]:
    return [
        (str(each.level), each.message)
        for each in fence(ring(), FenceFacts(proof=proof, users=users))
    ]


def test_a_fence_that_stands_around_all_shards_is_well() -> None:
    message = "the API server enforces the fence; it covers 2 shards"

    assert findings(STANDS, {ON_A: USER, ON_B: USER}) == [("OK", message)]


def test_the_first_of_many_shards_outside_the_fence_are_named() -> None:
    users = dict.fromkeys(ObjectRef("default", f"s-{index:02}") for index in range(13))

    found = findings(STANDS, users)

    assert len(found) == 11
    assert found[-1] == ("WARN", "the fence does not cover 3 more shards")


@pytest.mark.parametrize(
    ("proof", "message"),
    [
        (NoFence(), "the API server enforces no fence"),
        (
            Fence(digest="0123456789ab", users=(USER,)),
            f"the fence is outdated: its rules are 0123456789ab, expected {digest_of(ring())}",
        ),
        (UnknownFence("frozen"), "not checked: frozen"),
        (Unread("forbidden"), "not checked: forbidden"),
    ],
)
def test_what_does_not_stand_is_a_warning(proof: Proof | Unread, message: str) -> None:
    assert findings(proof, {ON_A: USER}) == [("WARN", message)]


def test_pods_that_cannot_be_read_are_a_warning() -> None:
    assert findings(STANDS, Unread("forbidden")) == [("WARN", "not checked: forbidden")]
