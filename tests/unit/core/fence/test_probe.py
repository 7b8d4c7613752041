"""Facts about `sharder.core.fence`."""

import pytest

from sharder.core.fence import Fence, UnknownFence, answer, proof_of
from sharder.core.names import RingName
from tests.support.values import DEMO

USERS = ("system:serviceaccount:a:one", "system:serviceaccount:b:two")
DIGEST = "0123456789ab"


def refusal(said: str) -> str:
    by = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request:"
    return f'PATCH /x: controllerrings "demo" is forbidden: {by} {said} [403]'


@pytest.mark.parametrize("users", [USERS, USERS[:1], ()])
def test_the_answer_of_the_policy_is_a_proof(users: tuple[str, ...]) -> None:
    said = answer(DEMO, DIGEST, users)

    assert proof_of(refusal(said), DEMO) == Fence(digest=DIGEST, users=users)


@pytest.mark.parametrize(
    "said",
    [
        "requests to controllerrings are frozen",
        "fence of the ring demo stands: rules xyz, accounts",
        answer(RingName("demo-2"), DIGEST, USERS),
    ],
)
def test_another_refusal_proves_nothing(said: str) -> None:
    assert proof_of(refusal(said), DEMO) == UnknownFence(refusal(said))
