"""Facts about `sharder.core.keys`: what of an object is hashed."""

from sharder.core.api.meta import ObjectMeta, OwnerReference, PartialObject
from sharder.core.keys import main_key, namespace_key, owner_key
from tests.support.values import CONFIGMAPS, obj

DEPLOYMENT = OwnerReference(api_version="apps/v1", kind="Deployment", name="web", controller=True)


def job() -> PartialObject:
    meta = ObjectMeta(name="web-1", namespace="team")
    return PartialObject(api_version="batch/v1", kind="Job", metadata=meta)


def test_a_key_is_group_kind_namespace_and_name_without_version() -> None:
    assert main_key(job()) == "batch/Job/team/web-1"


def test_the_group_of_a_core_object_is_empty() -> None:
    assert main_key(obj(CONFIGMAPS, "c")) == "/ConfigMap/default/c"


def test_the_namespace_of_a_cluster_scoped_object_is_empty() -> None:
    assert main_key(obj(name="w", namespace="")) == "example.com/Widget//w"


def test_an_object_keeps_its_key_when_its_resource_gets_a_new_version() -> None:
    old = PartialObject(api_version="apps/v1beta1", kind="Deployment")
    new = PartialObject(api_version="apps/v1", kind="Deployment")

    assert main_key(old) == main_key(new)


def test_the_key_of_an_owner_is_that_of_the_object_it_points_to() -> None:
    deployment = PartialObject(
        api_version="apps/v1beta2",
        kind="Deployment",
        metadata=ObjectMeta(name="web", namespace="team"),
    )

    assert owner_key(DEPLOYMENT, "team") == main_key(deployment)


def test_objects_of_one_kind_share_a_key_in_their_namespace_and_nowhere_else() -> None:
    one, two = (namespace_key(main_key(obj(name=name, namespace="team"))) for name in "ab")
    elsewhere = namespace_key(main_key(obj(name="a", namespace="other")))

    assert one == two == "example.com/Widget/team/"
    assert elsewhere != one
