"""Facts about `sharder.core.keys`: what of an object is hashed."""

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.keys import main_key


def job() -> PartialObject:
    meta = ObjectMeta(name="web-1", namespace="team")
    return PartialObject(api_version="batch/v1", kind="Job", metadata=meta)


def test_a_key_is_group_kind_namespace_and_name_without_version() -> None:
    assert main_key(job()) == "batch/Job/team/web-1"
