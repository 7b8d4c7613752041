"""What attackers send, made once."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from sharder.core.names import RING_LABEL, RingName, drain_label, owner_label, pin_label

NAME: Final = b"@@@@@@@@"
"""Stands where each request has a number of its own, in as many digits."""
USER: Final = {"username": "system:serviceaccount:checksum-controller:checksum-controller"}


def numbered(body: bytes, number: int) -> bytes:
    """Return the body with this number in it."""
    return body.replace(NAME, b"%08d" % number)


def fat_lease(ring: str, size: int) -> bytes:
    """Return a Lease with the ring's label and annotations of so many bytes."""
    fat = {f"example.com/a{index}": "x" * (size // 4) for index in range(4)}
    return lease(ring, annotations=fat)


def lease(ring: str, *, annotations: Mapping[str, str] | None = None) -> bytes:
    """Return a Lease that looks like that of a shard."""
    name, now = NAME.decode(), "2026-01-01T00:00:00.000000Z"
    spec = {
        "holderIdentity": f"lease-{name}",
        "leaseDurationSeconds": 15,
        "acquireTime": now,
        "renewTime": now,
    }
    metadata = {
        "name": f"lease-{name}",
        "labels": {RING_LABEL: ring},
        "annotations": dict(annotations or {}),
    }
    return _encode({"apiVersion": "coordination.k8s.io/v1", "metadata": metadata, "spec": spec})


def big_ring(size: int) -> bytes:
    """Return the review of a ring of so many bytes, nearly all of them resources."""
    kind = {"group": "sharding.timebertt.dev", "version": "v1alpha1", "kind": "ControllerRing"}
    before, after = _encode(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "big",
                "kind": kind,
                "operation": "CREATE",
                "name": "big",
                "object": {
                    "apiVersion": "sharding.timebertt.dev/v1alpha1",
                    "kind": "ControllerRing",
                    "metadata": {"name": "big"},
                    "spec": {"resources": NAME.decode()},
                },
            },
        }
    ).split(b'"' + NAME + b'"')
    one = b'{"resource":"a%07d"}'
    count = size // len(one % 0 + b",")
    return before + b"[" + b",".join(one % index for index in range(count)) + b"]" + after


def big_review(ring: str, size: int, *, references: bool) -> bytes:
    """Return the review of an object of so many bytes: owner references, or labels."""
    before, after = review(ring, "CREATE", labels={}, extra={"filling": NAME.decode() * 2})
    if references:
        one = b'{"apiVersion":"v1","kind":"Pod","name":"p%08d","uid":"u"}'
        many = b",".join(one % index for index in range(size // (len(one % 0) + 1)))
        return before + b'"ownerReferences":[' + many + b"]" + after
    one = b'"l%08d":"v"'
    many = b",".join(one % index for index in range(size // (len(one % 0) + 1)))
    return before + b'"labels":{' + many + b"}" + after


def review(
    ring: str, operation: str, *, labels: Mapping[str, str], extra: Mapping[str, str]
) -> tuple[bytes, bytes]:
    """Return the two halves around one more field of the object's metadata."""
    text = _encode(_review(operation, dict(labels), None, extra))
    before, after = text.split(b'"filling":"' + NAME * 2 + b'"')
    return before, after


def made_up_create(ring: str, namespace: str, *, pin: str = "") -> bytes:
    """Return the review of a creation that never was."""
    labels = {pin_label(RingName(ring)): pin} if pin else {}
    return _encode(_review("CREATE", labels, None, {"namespace": namespace}))


def made_up_acknowledgement(ring: str, namespace: str, shard: str) -> bytes:
    """Return a review in which a shard acknowledges a drain that was never requested.

    The object has a name as users give it, so it may exist.
    """
    name, place = RingName(ring), {"namespace": namespace, "name": f"secret-{NAME.decode()}"}
    before = {owner_label(name): shard, drain_label(name): "true"}
    return _encode(_review("UPDATE", {}, before, place))


def _review(
    operation: str,
    labels: dict[str, str],
    before: dict[str, str] | None,
    extra: Mapping[str, str],
) -> Mapping[str, object]:
    name = extra.get("name", f"made-up-{NAME.decode()}")
    namespace = extra.get("namespace", "users")

    def secret(labels: Mapping[str, str]) -> Mapping[str, object]:
        uid = f"uid-{NAME.decode()}"
        metadata = {"name": name, "namespace": namespace, "uid": uid, **extra}
        if labels:
            metadata = {**metadata, "labels": labels}  # type: ignore[dict-item]  # JSON
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}

    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": f"review-{NAME.decode()}",
            "kind": {"group": "", "version": "v1", "kind": "Secret"},
            "resource": {"group": "", "version": "v1", "resource": "secrets"},
            "name": name,
            "namespace": namespace,
            "operation": operation,
            "userInfo": USER,
            "object": secret(labels),
            "oldObject": None if before is None else secret(before),
            "dryRun": False,
        },
    }


def _encode(value: Mapping[str, object] | Sequence[object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
