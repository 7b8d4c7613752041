"""Facts about `sharder.keys`: what of an object is hashed."""

from sharder.api.meta import ObjectMeta, OwnerReference, PartialObject
from sharder.keys import controlled_key, main_key
from tests.support.values import CONFIGMAPS, obj

DEPLOYMENT = OwnerReference(api_version="apps/v1", kind="Deployment", name="web", controller=True)


def child(*owners: OwnerReference, namespace: str = "team") -> PartialObject:
    meta = ObjectMeta(name="web-1", namespace=namespace, owner_references=list(owners))
    return PartialObject(api_version="batch/v1", kind="Job", metadata=meta)


def test_a_key_is_group_kind_namespace_and_name_without_version() -> None:
    assert main_key(child()) == "batch/Job/team/web-1"


def test_the_group_of_a_core_object_is_empty() -> None:
    assert main_key(obj(CONFIGMAPS, "c")) == "/ConfigMap/default/c"


def test_the_namespace_of_a_cluster_scoped_object_is_empty() -> None:
    assert main_key(obj(name="w", namespace="")) == "example.com/Widget//w"


def test_an_object_keeps_its_key_when_its_resource_gets_a_new_version() -> None:
    old = PartialObject(api_version="apps/v1beta1", kind="Deployment")
    new = PartialObject(api_version="apps/v1", kind="Deployment")

    assert main_key(old) == main_key(new)


def test_a_controlled_object_has_the_key_of_its_controller() -> None:
    deployment = PartialObject(
        api_version="apps/v1beta2",
        kind="Deployment",
        metadata=ObjectMeta(name="web", namespace="team"),
    )

    assert controlled_key(child(DEPLOYMENT)) == main_key(deployment)


def test_an_owner_that_does_not_control_counts_for_nothing() -> None:
    bystander = OwnerReference(api_version="v1", kind="Secret", name="s", controller=False)

    assert controlled_key(child(bystander, DEPLOYMENT)) == "apps/Deployment/team/web"
    assert controlled_key(child(bystander)) is None


def test_an_object_without_owners_has_no_key_as_a_controlled_one() -> None:
    assert controlled_key(obj(CONFIGMAPS)) is None
