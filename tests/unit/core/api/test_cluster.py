"""Facts about `sharder.core.api.cluster`."""

from sharder.core.api.cluster import Secret
from sharder.core.api.meta import ObjectMeta


def test_a_secret_is_named_without_its_data() -> None:
    secret = Secret(
        metadata=ObjectMeta(name="tls", namespace="here"),
        type="Opaque",
        data={"tls.key": "c2VjcmV0"},
    )

    assert repr(secret) == "Secret(here/tls, type='Opaque', keys=['tls.key'])"
