"""The fence on a real API server, against shards with the tokens of their own pods."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import pytest

from hack import objects
from hack.control_plane import ControlPlane
from hack.playground import CRD
from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource
from sharder.core.api.ring import ControlledResource, ControllerRing, RingResource, RingSpec
from sharder.core.errors import Rejected
from sharder.core.fence import Fence, NoFence, digest_of, fence_of
from sharder.core.names import (
    RING_LABEL,
    GroupResource,
    ObjectRef,
    RingName,
    drain_label,
    owner_label,
)
from sharder.kube.client import JSON, MERGE_PATCH, Client, connect
from sharder.kube.fence_probe import prove_fence
from sharder.kube.typed_stores import LEASES, RINGS
from tests.support.eventually import eventually
from tests.support.users import CONFIGMAPS, PODS, User, path_of

RING: Final = RingName("fenced")
OWNER, DRAIN = owner_label(RING), drain_label(RING)
NAMESPACE, ACCOUNT = "shards", "controller"
A, B = "shard-a", "shard-b"
"""Two shards, with the names of their pods."""

DEPLOYMENTS: Final = Resource(
    id=GroupResource("apps", "deployments"), version="v1", kind="Deployment", namespaced=True
)
RESOURCES: Final = (
    RingResource(
        group="apps",
        resource="deployments",
        controlled_resources=(
            ControlledResource(resource="configmaps"),
            ControlledResource(resource="pods"),
        ),
    ),
)
RING_SPEC: Final = {"resources": msgspec.to_builtins(RESOURCES)}
RIGHTS: Final = f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: everything}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}
subjects:
  - {{kind: ServiceAccount, namespace: {NAMESPACE}, name: {ACCOUNT}}}
  - {{kind: ServiceAccount, namespace: {NAMESPACE}, name: visitor}}
"""
"""Everybody is allowed everything, so that only the fence refuses."""

_SELECTED: Final[Json] = {"app": "web"}
CONTENT: Final[Mapping[str, Mapping[str, Json]]] = {
    "Deployment": {
        "spec": {
            "selector": {"matchLabels": _SELECTED},
            "template": {
                "metadata": {"labels": _SELECTED},
                "spec": {"containers": [{"name": "main", "image": "none"}]},
            },
        }
    },
    "Pod": {"spec": {"containers": [{"name": "main", "image": "none"}]}},
    "Lease": {"spec": {"holderIdentity": "x", "leaseDurationSeconds": 15}},
}


FENCED = ControllerRing(metadata=ObjectMeta(name=RING), spec=RingSpec(resources=RESOURCES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Someone:
    """A client of its own, and what it can do with objects of the test's namespace."""

    client: Client

    async def create(
        self, of: Resource, name: str, labels: Mapping[str, str] | None = None
    ) -> PartialObject:
        content = CONTENT.get(of.kind, {})
        user = User(self.client)
        return await user.create(
            of, name, namespace=NAMESPACE, content=content, labels=dict(labels or {})
        )

    async def label(
        self, of: Resource, name: str, labels: Mapping[str, str | None], part: str = ""
    ) -> None:
        body: Json = {"metadata": {"labels": labels}}
        await self.send("PATCH", of, name, body, part)

    async def send(
        self, method: str, of: Resource, name: str, body: Json = None, part: str = ""
    ) -> None:
        kind = MERGE_PATCH if method == "PATCH" else JSON
        path = path_of(of, NAMESPACE, name) + part
        await self.client.request(method, path, body=body, content_type=kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Everybody who writes."""

    admin: Someone
    a: Someone
    b: Someone
    unbound: Someone
    """With a token of the shards' account that is bound to no pod."""
    visitor: Someone
    """In a pod with the name of a shard, under another account."""


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """An API server with the fence, without a sharder."""
    with ControlPlane() as plane:
        plane.apply(CRD)
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
        plane.kubectl("create", "namespace", NAMESPACE)
        for account in (ACCOUNT, "visitor", "default"):
            plane.kubectl("create", "serviceaccount", account, "-n", NAMESPACE)
        plane.apply(RIGHTS)
        plane.apply(fence_of(FENCED, [ObjectRef(NAMESPACE, ACCOUNT)]))
        plane.apply([objects.ring(ring, RING_SPEC) for ring in (RING, "open")])
        yield plane


@pytest.fixture(scope="module")
def kubeconfigs(plane: ControlPlane) -> Mapping[str, Path]:
    return {
        "admin": plane.admin_kubeconfig,
        "a": plane.token_kubeconfig(NAMESPACE, ACCOUNT, pod=A),
        "b": plane.token_kubeconfig(NAMESPACE, ACCOUNT, pod=B),
        "unbound": plane.token_kubeconfig(NAMESPACE, ACCOUNT),
        "visitor": plane.token_kubeconfig(NAMESPACE, "visitor", pod="visitor"),
    }


@pytest.fixture
async def cast(kubeconfigs: Mapping[str, Path]) -> AsyncIterator[Cast]:
    async with AsyncExitStack() as stack:
        clients = {name: await connect(str(path)) for name, path in kubeconfigs.items()}
        for client in clients.values():
            stack.push_async_callback(client.close)
        cast = Cast(**{name: Someone(client=client) for name, client in clients.items()})
        await eventually(partial(_stands, cast), within=60)
        yield cast


async def _stands(cast: Cast) -> None:
    """Check that the policy works: that takes some time after it was created."""
    name = await an_object(cast, CONFIGMAPS, B)
    await refused(cast.a.label(CONFIGMAPS, name, {"x": "y"}))


async def an_object(cast: Cast, of: Resource, owner: str = "", **labels: str) -> str:
    """Return the name of a new object of that owner."""
    name = f"{of.kind.lower()}-{uuid.uuid4().hex[:8]}"
    await cast.admin.create(of, name, {**({OWNER: owner} if owner else {}), **labels})
    return name


async def refused(write: Awaitable[object]) -> str:
    """Return what the fence says to a write that it refuses."""
    try:
        await write
    except Rejected as error:
        text = str(error)
        assert f"'controllerring-{RING}-fence' denied request" in text
        assert text.endswith("[403]")
        return text
    raise AssertionError("the fence let it pass")


@pytest.mark.parametrize("of", [DEPLOYMENTS, CONFIGMAPS], ids=["main", "controlled"])
async def test_a_shard_that_lost_an_object_cannot_write_it(cast: Cast, of: Resource) -> None:
    name = await an_object(cast, of, A)
    await cast.a.label(of, name, {"by": "a"})

    await cast.admin.label(of, name, {OWNER: B})  # as the sharder does

    said = await refused(cast.a.label(of, name, {"by": "a-again"}))
    assert f"{of.id.resource} {NAMESPACE}/{name} belongs to the shard {B}, not to {A}" in said
    await refused(cast.a.send("DELETE", of, name))
    await refused(cast.a.send("DELETE", of, "", {"kind": "DeleteOptions"}))
    await cast.b.label(of, name, {"by": "b"})
    await cast.b.send("DELETE", of, name)


async def test_subresources_are_fenced_too(cast: Cast) -> None:
    mine, lost = [await an_object(cast, DEPLOYMENTS, owner) for owner in (A, B)]
    status: Json = {"status": {"observedGeneration": 1}}

    await cast.a.send("PATCH", DEPLOYMENTS, mine, status, "/status")

    await refused(cast.a.send("PATCH", DEPLOYMENTS, lost, status, "/status"))


async def test_subresources_that_hide_the_owner_are_refused(cast: Cast) -> None:
    web, pod = await an_object(cast, DEPLOYMENTS, A), await an_object(cast, PODS, A)
    scale: Json = {"spec": {"replicas": 2}}
    eviction: Json = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": NAMESPACE},
    }

    said = [
        await refused(cast.a.send("PATCH", DEPLOYMENTS, web, scale, "/scale")),
        await refused(cast.a.send("POST", PODS, pod, eviction, "/eviction")),
    ]

    assert all("must not use scale and other subresources" in each for each in said)
    await cast.visitor.send("PATCH", DEPLOYMENTS, web, scale, "/scale")


async def test_an_object_without_owner_can_be_written(cast: Cast) -> None:
    name = await an_object(cast, CONFIGMAPS)

    await cast.a.label(CONFIGMAPS, name, {"by": "a"})
    await cast.a.label(CONFIGMAPS, name, {OWNER: A})
    await refused(cast.b.label(CONFIGMAPS, name, {"by": "b"}))


async def test_a_shard_creates_children_for_itself_alone(cast: Cast) -> None:
    name = f"child-{uuid.uuid4().hex[:8]}"

    await cast.a.create(CONFIGMAPS, f"{name}-mine", {OWNER: A})
    await cast.a.create(CONFIGMAPS, f"{name}-unowned", {})

    said = await refused(cast.a.create(CONFIGMAPS, f"{name}-stale", {OWNER: B}))
    assert "belongs to the shard shard-b" in said


async def test_a_shard_creates_main_objects_for_any_owner(cast: Cast) -> None:
    """The webhook has already chosen the owner when the policy sees the object."""
    await cast.a.create(DEPLOYMENTS, f"main-{uuid.uuid4().hex[:8]}", {OWNER: B})


@pytest.mark.parametrize("after", ["", B], ids=["no owner", "given to another by the webhook"])
async def test_an_acknowledgement_passes(cast: Cast, after: str) -> None:
    name = await an_object(cast, DEPLOYMENTS, A, **{DRAIN: "true"})

    await cast.a.label(DEPLOYMENTS, name, {OWNER: after or None, DRAIN: None})

    await cast.b.label(DEPLOYMENTS, name, {"by": "b"})


async def test_a_shard_can_neither_drain_nor_assign_objects(cast: Cast) -> None:
    name = await an_object(cast, DEPLOYMENTS, A)
    child = f"child-{uuid.uuid4().hex[:8]}"

    assert "only the sharder drains" in await refused(
        cast.a.label(DEPLOYMENTS, name, {DRAIN: "true"})
    )
    assert "only the sharder gives objects" in await refused(
        cast.a.label(DEPLOYMENTS, name, {OWNER: B})
    )
    assert "only the sharder drains" in await refused(
        cast.a.create(CONFIGMAPS, child, {OWNER: A, DRAIN: "true"})
    )
    draining = await an_object(cast, DEPLOYMENTS, A, **{DRAIN: "true"})
    await refused(cast.a.label(DEPLOYMENTS, draining, {OWNER: B}))


async def test_a_shard_writes_only_the_lease_of_its_pod(cast: Cast) -> None:
    ring = {RING_LABEL: RING}

    await cast.a.create(LEASES, A, ring)
    await cast.b.create(LEASES, B, ring)
    await cast.a.label(LEASES, A, {"by": "a"})

    said = await refused(cast.a.label(LEASES, B, {"by": "a"}))
    assert f"the pod {A} must not write the Lease {B}" in said
    await refused(cast.a.label(LEASES, B, {RING_LABEL: None}))
    await refused(cast.a.send("DELETE", LEASES, B))
    await refused(cast.a.create(LEASES, f"forged-{uuid.uuid4().hex[:8]}", ring))


async def test_other_leases_are_not_judged(cast: Cast) -> None:
    name = f"leader-{uuid.uuid4().hex[:8]}"

    await cast.a.create(LEASES, name, {RING_LABEL: "another"})
    await cast.unbound.label(LEASES, name, {RING_LABEL: None})

    await refused(cast.a.label(LEASES, name, {RING_LABEL: RING}))


async def test_a_token_that_is_bound_to_no_pod_is_refused(cast: Cast) -> None:
    name, unowned = [await an_object(cast, CONFIGMAPS, owner) for owner in (A, "")]

    said = [
        await refused(cast.unbound.label(CONFIGMAPS, name, {"x": "y"})),
        await refused(cast.unbound.label(CONFIGMAPS, unowned, {"x": "y"})),
        await refused(cast.unbound.create(LEASES, A + "-unbound", {RING_LABEL: RING})),
    ]

    assert all("must be bound to its pod" in each for each in said)


async def test_other_clients_are_not_judged(cast: Cast) -> None:
    name = await an_object(cast, DEPLOYMENTS, A)
    status: Json = {"status": {"observedGeneration": 1}}

    for other in (cast.admin, cast.visitor):
        await other.label(DEPLOYMENTS, name, {"x": "y", OWNER: B, DRAIN: "true"})
        await other.send("PATCH", DEPLOYMENTS, name, status, "/status")
        await other.create(CONFIGMAPS, f"x-{uuid.uuid4().hex[:8]}", {OWNER: B, DRAIN: "true"})
    await cast.visitor.send("DELETE", DEPLOYMENTS, name)


async def test_a_dry_run_proves_the_fence(cast: Cast) -> None:
    """Under any account: the policy recognizes the dry run, not who sends it."""
    user = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
    for someone in (cast.visitor, cast.admin, cast.a):
        proof = await prove_fence(someone.client, RING)

        assert proof == Fence(digest=digest_of(FENCED), users=(user,))


async def test_without_a_fence_the_dry_run_passes_and_changes_nothing(cast: Cast) -> None:
    before = await User(cast.admin.client).ring("open")

    assert await prove_fence(cast.admin.client, RingName("open")) == NoFence()

    assert await User(cast.admin.client).ring("open") == before


async def test_the_status_of_a_fenced_ring_can_be_written(cast: Cast) -> None:
    status: Json = {"status": {"shards": 3}}

    await User(cast.visitor.client).patch(RINGS, f"{RING}/status", status)

    assert (await User(cast.admin.client).ring(RING)).status.shards == 3
