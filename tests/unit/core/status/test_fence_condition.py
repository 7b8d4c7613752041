"""Facts about the condition `Fenced`, and what proves a fence."""

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from sharder.core.api.lease import to_the_second
from sharder.core.api.ring import Condition, RingSpec, RingStatus
from sharder.core.fence import Fence, NoFence, Proof, UnknownFence, digest_of, fence_of, proof_of
from sharder.core.leases.membership import Members
from sharder.core.status.status import FORGOTTEN_AFTER, fenced
from tests.support.values import DEMO, A, B, available, ring

ONCE_FENCED = RingStatus(conditions=(Condition(type="Fenced", status="True"),))
NOW = datetime(2026, 1, 31, tzinfo=UTC)
USER = "system:serviceaccount:default:my-controller"


def fence(*users: str) -> Fence:
    return Fence(digest=digest_of(ring()), users=users or (USER,))


def said(
    proof: Proof | None, *, before: RingStatus = ONCE_FENCED, of: Members | None = None
) -> tuple[str, str, str]:
    condition = fenced(before, proof, ring(), of or available(A, B), NOW)
    assert condition is not None
    return condition.status, condition.reason, condition.message


def test_a_fence_with_other_rules_is_outdated() -> None:
    status, reason, message = said(Fence(digest="0123456789ab", users=(USER,)))

    assert (status, reason) == ("False", "Outdated")
    assert message.startswith(
        f"the fence is outdated: its rules are 0123456789ab, expected {digest_of(ring())}; apply"
    )


def missing_since(time: str) -> RingStatus:
    missing = Condition(
        type="Fenced", status="False", reason="NotInstalled", last_transition_time=time
    )
    return RingStatus(conditions=(missing,))


def missing_for(time: timedelta) -> RingStatus:
    return missing_since(to_the_second(NOW - time))


def test_a_fence_that_is_not_restored_for_a_day_was_removed_on_purpose() -> None:
    condition = fenced(missing_for(FORGOTTEN_AFTER), NoFence(), ring(), available(A), NOW)

    assert condition is not None
    assert not condition.status


@pytest.mark.parametrize(
    ("before", "proof"),
    [
        (missing_for(FORGOTTEN_AFTER - timedelta(seconds=1)), NoFence()),
        (missing_since(""), NoFence()),
        (missing_for(FORGOTTEN_AFTER), UnknownFence("no answer in time")),
        (missing_for(FORGOTTEN_AFTER), fence()),
    ],
    ids=["missing for less", "missing since an unknown time", "not tried", "restored"],
)
def test_else_the_condition_stays(before: RingStatus, proof: Proof) -> None:
    condition = fenced(before, proof, ring(), available(A), NOW)

    assert condition is not None
    assert condition.status


def test_a_shard_without_an_account_in_its_namespace_may_be_outside_of_the_fence() -> None:
    elsewhere = dataclasses.replace(available(A), namespaces={A: "elsewhere"})

    status, reason, message = said(fence(), of=elsewhere)

    assert (status, reason) == ("Unknown", "Unknown")
    assert message.startswith("cannot verify that the fence covers 1 shard, Lease elsewhere/")


# What the answer of the policy proves


USERS = ("system:serviceaccount:a:one", "system:serviceaccount:b:two")
DIGEST = "0123456789ab"


def answer(ring: str, users: tuple[str, ...]) -> str:
    return f"fence of the ring {ring} stands: rules {DIGEST}, accounts {' '.join(users)}"


def refusal(said: str) -> str:
    by = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request:"
    return f'PATCH /x: controllerrings "demo" is forbidden: {by} {said} [403]'


@pytest.mark.parametrize("users", [USERS, USERS[:1], ()])
def test_the_answer_of_the_policy_is_a_proof(users: tuple[str, ...]) -> None:
    said = refusal(answer(DEMO, users))

    assert proof_of(said, DEMO) == Fence(digest=DIGEST, users=users)


@pytest.mark.parametrize(
    "said",
    [
        "requests to controllerrings are frozen",
        "fence of the ring demo stands: rules xyz, accounts",
        answer("demo-2", USERS),
    ],
)
def test_another_refusal_proves_nothing(said: str) -> None:
    assert proof_of(refusal(said), DEMO) == UnknownFence(refusal(said))


def test_a_ring_without_a_resource_that_can_be_sharded_has_a_fence_around_its_leases() -> None:
    policy, _ = fence_of(replace(ring(), spec=RingSpec(resources=())), ())

    assert "leases" in str(policy)
