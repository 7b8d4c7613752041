"""Writes what timebertt/kubernetes-controller-sharding v0.13 writes, the way it writes it.

Labels of objects, states of Leases, webhook configuration and status of a ring, and the leader's
Lease.  It answers no calls: what its webhook would add to an object stands in the create already.

Source:
    That project's pkg/controller/controllerring, sharder and shardlease, each `reconciler.go`, and
    pkg/webhook/sharder; client-go's leaderelection.go for the leader's Lease.
"""

import base64
import json
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from xxhash import xxh64_intdigest

from hack.playground import NAMESPACE, RING, SHARDS, SYSTEM
from sharder.core.api.lease import Lease, format_time
from sharder.core.api.meta import Json, PartialObject
from sharder.core.names import ObjectRef
from sharder.kube.client import APPLY_PATCH, MERGE_PATCH, Client
from sharder.kube.errors import decode_as

OWNER: Final = f"shard.alpha.sharding.timebertt.dev/{RING}"
DRAIN: Final = f"drain.alpha.sharding.timebertt.dev/{RING}"
RING_LABEL: Final = "alpha.sharding.timebertt.dev/controllerring"
STATE: Final = "alpha.sharding.timebertt.dev/state"

RINGS: Final = "/apis/sharding.timebertt.dev/v1alpha1/controllerrings"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces"
CONFIGURATION: Final = (
    f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/controllerring-{RING}"
)
SECRETS: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets"
IDENTITY: Final = "sharder-5d8f7c9b6-x2x7p_0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"


@dataclass(frozen=True, slots=True)
class Reference:
    """Its sharder, as far as it can be seen in a cluster."""

    client: Client
    """With all rights."""

    async def lead(self) -> None:
        """Take the leader's Lease, which was never held."""
        await self._write_leader(IDENTITY, seconds=15, create=True)

    async def resign(self) -> None:
        """Give the leader's Lease back, as its process does when it stops."""
        await self._write_leader("", seconds=1)

    async def register(self) -> None:
        """Apply the ring's webhook configuration; not by force, as it never does that."""
        ring = json.loads(await self.client.request("GET", f"{RINGS}/{RING}"))
        await self.client.request(
            "PATCH",
            CONFIGURATION,
            query={"fieldManager": "controllerring-controller"},
            body=_configuration(ring["metadata"]["uid"], ring["spec"]["namespaceSelector"]),
            content_type=APPLY_PATCH,
        )

    async def inject_authority(self) -> None:
        """Put an authority into the webhook configuration, as cert-manager does beside it."""
        found = json.loads(await self.client.request("GET", CONFIGURATION))
        authority = base64.b64encode(b"of cert-manager").decode()
        found["webhooks"][0]["clientConfig"]["caBundle"] = authority
        manager = {"fieldManager": "cert-manager-cainjector"}
        await self.client.request("PUT", CONFIGURATION, query=manager, body=found)

    async def report(self, *, shards: int, available: int) -> None:
        """Write the ring's status."""
        ring = json.loads(await self.client.request("GET", f"{RINGS}/{RING}"))
        generation = ring["metadata"]["generation"]
        ring["status"] = {
            "observedGeneration": generation,
            "shards": shards,
            "availableShards": available,
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "ReconciliationSucceeded",
                    "message": "ControllerRing was successfully reconciled",
                    "observedGeneration": generation,
                    "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
            ],
        }
        await self.client.request("PUT", f"{RINGS}/{RING}/status", body=ring)

    async def delete_lease(self, shard: str) -> None:
        """Leave the Lease of a shard that is dead, as it stands when that was taken."""
        now = format_time(datetime.now(UTC))
        body: Json = {
            "metadata": {"name": shard, "labels": {RING_LABEL: RING, STATE: "dead"}},
            "spec": {
                "holderIdentity": "shardlease-controller",
                "leaseDurationSeconds": 30,
                "acquireTime": now,
                "renewTime": now,
                "leaseTransitions": 1,
            },
        }
        await self.client.request("POST", f"{LEASES}/{SHARDS}/leases", body=body)

    async def mark(self, lease: Lease, state: str) -> None:
        """Write the state of a shard onto its Lease."""
        path = f"{LEASES}/{SHARDS}/leases/{lease.metadata.name}"
        await self._merge(path, lease, {STATE: state})

    async def admit(self, name: str, shards: Iterable[str]) -> None:
        """Create a Secret as it is after its webhook."""
        owner = owner_of(f"/Secret/{NAMESPACE}/{name}", shards)
        body: Json = {"metadata": {"name": name, "labels": {OWNER: owner}}}
        await self.client.request("POST", SECRETS, body=body)

    async def drain(self, secret: PartialObject) -> None:
        """Drain a Secret."""
        await self._merge(f"{SECRETS}/{secret.metadata.name}", secret, {DRAIN: "true"})

    async def _merge(self, path: str, obj: PartialObject, labels: dict[str, str]) -> None:
        version = obj.metadata.resource_version
        body: Json = {"metadata": {"resourceVersion": version, "labels": dict(labels)}}
        await self.client.request("PATCH", path, body=body, content_type=MERGE_PATCH)

    async def _write_leader(self, holder: str, *, seconds: int, create: bool = False) -> None:
        now = format_time(datetime.now(UTC))
        ref = ObjectRef(SYSTEM, "sharder")
        collection = f"{LEASES}/{ref.namespace}/leases"
        spec: Json = {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        if create:
            body: Json = {"metadata": {"name": ref.name}, "spec": spec}
            await self.client.request("POST", collection, body=body)
            return
        path = f"{collection}/{ref.name}"
        lease = decode_as(await self.client.request("GET", path), Lease, path)
        metadata: Json = {"name": ref.name, "resourceVersion": lease.metadata.resource_version}
        await self.client.request("PUT", path, body={"metadata": metadata, "spec": spec})


def owner_of(key: str, shards: Iterable[str]) -> str:
    """Return the shard that its ring gives a key to; independent of `core.placement.hash_ring`."""
    tokens = sorted((xxh64_intdigest(f"{s}{i}".encode()), s) for s in shards for i in range(100))
    index = bisect_left(tokens, (xxh64_intdigest(key.encode()), ""))
    return tokens[index % len(tokens)][1]


def _configuration(uid: str, namespace_selector: Json) -> Json:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {
            "name": f"controllerring-{RING}",
            "labels": {"app.kubernetes.io/name": "controller-sharding", RING_LABEL: RING},
            "annotations": {"cert-manager.io/inject-ca-from": f"{SYSTEM}/webhook-server"},
            "ownerReferences": [
                {
                    "apiVersion": "sharding.timebertt.dev/v1alpha1",
                    "kind": "ControllerRing",
                    "name": RING,
                    "uid": uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "webhooks": [
            {
                "name": "sharder.sharding.timebertt.dev",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "service": {
                        "namespace": SYSTEM,
                        "name": "sharder",
                        "path": f"/webhooks/sharder/controllerring/{RING}",
                    }
                },
                "failurePolicy": "Ignore",
                "namespaceSelector": namespace_selector,
                "objectSelector": {
                    "matchExpressions": [{"key": OWNER, "operator": "DoesNotExist"}]
                },
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["*"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [resource],
                        "scope": "*",
                    }
                    for resource in ("secrets", "configmaps")
                ],
                "sideEffects": "None",
                "timeoutSeconds": 5,
            }
        ],
    }
