"""Facts about `sharder.core.api.meta`: metadata as it comes over the wire."""

import msgspec

from sharder.core.api.meta import ObjectMeta, OwnerReference, PartialObject


def decode(text: str) -> PartialObject:
    return msgspec.json.decode(text, type=PartialObject)


def test_only_the_owner_that_controls_is_the_controller() -> None:
    other, controls = OwnerReference(name="a"), OwnerReference(name="b", controller=True)

    assert ObjectMeta(owner_references=[other, controls]).controller == controls
    assert ObjectMeta(owner_references=[other]).controller is None
    assert ObjectMeta().controller is None
