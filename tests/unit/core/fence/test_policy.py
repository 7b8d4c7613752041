"""Facts about `sharder.core.fence.policy`; tests/integration/test_fence.py has its effect."""

import msgspec
from msgspec import structs

from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing, RingResource
from sharder.core.fence.policy import answer, digest_of, fence_of, policy_name
from sharder.core.names import ObjectRef
from tests.support.values import DEMO, ring

ACCOUNTS = (ObjectRef("b", "two"), ObjectRef("a", "one"), ObjectRef("b", "two"))
USERS = ["system:serviceaccount:a:one", "system:serviceaccount:b:two"]


def of_resources(*resources: RingResource) -> ControllerRing:
    return structs.replace(ring(), spec=structs.replace(ring().spec, resources=resources))


def policy_of(of: ControllerRing) -> str:
    return str(fence_of(of, ACCOUNTS)[0])


def test_policy_and_binding_have_one_name() -> None:
    policy, binding = fence_of(ring(), ACCOUNTS)

    found = [msgspec.convert(each, PartialObject).metadata.name for each in (policy, binding)]
    assert found == [policy_name(DEMO)] * 2 == ["controllerring-demo-fence"] * 2


def test_it_judges_each_account_once_in_a_stable_order() -> None:
    assert '["system:serviceaccount:a:one","system:serviceaccount:b:two"]' in policy_of(ring())
    assert policy_of(ring()) == str(fence_of(ring(), reversed(ACCOUNTS))[0])


def test_the_policy_answers_with_its_digest_and_its_accounts() -> None:
    assert answer(DEMO, digest_of(ring()), USERS) in policy_of(ring())


def test_resources_that_are_never_sharded_are_not_fenced() -> None:
    roles = RingResource(group="rbac.authorization.k8s.io", resource="roles")

    assert policy_of(of_resources(roles)) == policy_of(of_resources())
