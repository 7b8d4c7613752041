"""Facts about `sharder.core.names`: what stands on the wire, and what may be a label's value."""

import pytest

from sharder.core import names
from sharder.core.names import GroupResource, ObjectRef, RingName, is_label_key, is_label_value

RING = RingName("demo")


def test_labels_and_annotation_carry_the_ring_behind_the_slash() -> None:
    assert names.owner_label(RING) == "shard.alpha.sharding.timebertt.dev/demo"
    assert names.drain_label(RING) == "drain.alpha.sharding.timebertt.dev/demo"
    assert names.next_annotation(RING) == "next.alpha.sharding.timebertt.dev/demo"


def test_the_webhook_of_a_ring_is_named_and_reached_as_in_the_reference() -> None:
    assert names.webhook_configuration(RING) == "controllerring-demo"
    assert names.webhook_path(RING) == "/webhooks/sharder/controllerring/demo"
    assert names.webhook_path(RING, "0a") == "/0a/webhooks/sharder/controllerring/demo"


def test_labels_of_the_longest_ring_name_are_label_keys() -> None:
    longest = RingName("r" * 63)

    keys = [names.owner_label(longest), names.drain_label(longest), names.next_annotation(longest)]

    # A key is a DNS subdomain of at most 253 characters, a slash, and at most 63 characters.
    assert all(len(key.partition("/")[0]) <= 253 for key in keys)
    assert all(len(key.partition("/")[2]) <= 63 for key in keys)


@pytest.mark.parametrize(
    ("resource", "text"),
    [
        (GroupResource("apps", "deployments"), "deployments.apps"),
        (GroupResource("", "pods"), "pods"),
    ],
)
def test_a_resource_is_written_as_kubectl_writes_it(resource: GroupResource, text: str) -> None:
    assert str(resource) == text


@pytest.mark.parametrize(
    ("ref", "text"), [(ObjectRef("team", "web"), "team/web"), (ObjectRef("", "node-1"), "node-1")]
)
def test_a_cluster_scoped_object_is_written_without_namespace(ref: ObjectRef, text: str) -> None:
    assert str(ref) == text


@pytest.mark.parametrize("text", ["a", "A9", "shard-0", "a.b_c-d", "x" * 63, "my.pod-5f7-xk2"])
def test_names_of_pods_up_to_63_characters_are_label_values(text: str) -> None:
    assert is_label_value(text)


@pytest.mark.parametrize(
    "text",
    ["", "x" * 64, "-a", "a-", ".a", "a.", "_", "a b", "a/b", "a:b", "ä", "aä", "a\n", "٣"],
)
def test_an_invalid_label_value_is_recognized(text: str) -> None:
    assert not is_label_value(text)


@pytest.mark.parametrize(
    "text", ["a", "A_b.c-D", "example.com/a", "a-b.c/X", f"{'d' * 253}/{'n' * 63}"]
)
def test_a_name_with_or_without_a_domain_is_a_label_key(text: str) -> None:
    assert is_label_key(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "a/",
        "/a",
        "a/b/c",
        "Example.com/a",
        "-a/b",
        "a..b/c",
        f"{'d' * 254}/a",
        "n" * 64,
        "a b",
    ],
)
def test_an_invalid_label_key_is_recognized(text: str) -> None:
    assert not is_label_key(text)
