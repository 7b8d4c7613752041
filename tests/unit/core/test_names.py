"""Facts about `sharder.core.names`: what stands on the wire, and what may be a label's value."""

from sharder.core import names
from sharder.core.names import RingName

RING = RingName("demo")


def test_what_stands_on_the_wire_is_as_in_the_reference() -> None:
    assert names.owner_label(RING) == "shard.alpha.sharding.timebertt.dev/demo"
    assert names.drain_label(RING) == "drain.alpha.sharding.timebertt.dev/demo"
    assert names.next_annotation(RING) == "next.alpha.sharding.timebertt.dev/demo"
    assert names.webhook_configuration(RING) == "controllerring-demo"
    assert names.webhook_path(RING) == "/webhooks/sharder/controllerring/demo"
    assert names.webhook_path(RING, "0a") == "/0a/webhooks/sharder/controllerring/demo"
