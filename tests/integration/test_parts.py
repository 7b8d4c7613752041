"""Each namespace of a ring for itself: one that cannot be read or written keeps no other one back.

The sharder has the chart's rights in two namespaces.  In one of them the right is taken away, or
a policy rejects every update, and a shard dies.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeVar

import pytest

from hack.control_plane import ControlPlane
from sharder.core.api.lease import format_time
from sharder.core.api.meta import Json, PartialObject
from sharder.core.api.ring import Condition
from sharder.core.errors import Rejected
from sharder.core.names import RING_LABEL, GroupResource, ObjectRef, RingName, owner_label
from sharder.core.status.conditions import COVERED, UNCOUNTED, UNOWNED, condition_of
from sharder.kube.client import Client, connect
from sharder.kube.objects import KubeObjects
from sharder.kube.typed_stores import rings
from tests.chart.rendering import CHART, REQUIRED
from tests.support.eventually import eventually
from tests.support.release import Release

FINE, BROKEN = "demo", "demo2"
SECONDS: Final = 5
"""Duration of a Lease."""
OBJECTS: Final = 10
"""In each namespace."""
WITHIN: Final = 90.0
"""Much longer than two durations, for a busy machine, and shorter than a back-off that grows."""

SECRETS, MAPS = GroupResource("", "secrets"), GroupResource("", "configmaps")
FOLLOWS, STICKS, LEADS = RingName("follows"), RingName("sticks"), RingName("leads")
RINGS: Final = {FOLLOWS: "ConsistentHash", STICKS: "LeastLoaded", LEADS: "ConsistentHash"}

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of a ring."""

    rescued: float
    """Seconds from the last renewal of the dead shard until its objects in the namespace that is
    fine were on the other shard."""
    meanwhile: Sequence[Condition]
    """The condition Covered from then on, while the other namespace was broken."""
    returned: float
    """Seconds until the objects there were too, after it was fine again."""


@pytest.fixture(scope="module")
def told() -> Iterator[Mapping[str, Mapping[RingName, Seen]]]:
    with ControlPlane() as plane:
        yield asyncio.run(tell(Release(plane)))


async def tell(release: Release) -> Mapping[str, Mapping[RingName, Seen]]:
    client = await connect(str(release.plane.admin_kubeconfig))
    play = Play(release, client)
    try:
        await play.install()
        return {
            "forbidden": await play.tell("forbidden", play.forbid, play.allow),
            "rejected": await play.tell("rejected", play.reject, play.accept),
        }
    finally:
        await client.close()


class Play:
    """The release, and the hands of everybody."""

    def __init__(self, release: Release, client: Client) -> None:
        self._release = release
        self._client = client
        self._objects = KubeObjects(client)
        self._alive = set[str]()
        self._renewed = dict[str, float]()
        self._binding: dict[str, Json] = {}

    async def install(self) -> None:
        """Install the chart, and run a sharder."""
        for namespace in (FINE, BROKEN):
            await self._release.kubectl("create", "namespace", namespace)
        values = {**REQUIRED, "rings": [ring_of(name) for name in RINGS]}
        install = ("install", "sharder", str(CHART), "--create-namespace")
        await self._release.helm(*install, values=values)
        await self._release.replace_sharder()

    async def tell(
        self,
        word: str,
        break_it: Callable[[], Awaitable[None]],
        mend_it: Callable[[], Awaitable[None]],
    ) -> Mapping[RingName, Seen]:
        """Let a shard die while a namespace is broken; its name has this word."""
        lives, dies = f"{word}-lives", f"{word}-dies"
        async with self._renewing(lives, dies):
            await each(lambda ring: eventually(self._available(ring, 2), within=WITHIN))
            await self._create(word)
            await each(lambda ring: eventually(self._owned(ring, lives, dies), within=WITHIN))
            await each(lambda ring: eventually(self._is_covered(ring), within=WITHIN))
            await break_it()
            self._alive.remove(dies)
            died = self._renewed[dies]
            rescued = await each(lambda ring: self._rescued(ring, dies, FINE, died))
            meanwhile = await each(self._watch_condition)
            await mend_it()
            mended = time.monotonic()
            returned = await each(lambda ring: self._rescued(ring, dies, BROKEN, mended))
            await each(lambda ring: eventually(self._is_covered(ring), within=WITHIN))
        return {
            ring: Seen(rescued=rescued[ring], meanwhile=meanwhile[ring], returned=returned[ring])
            for ring in RINGS
        }

    async def _create(self, word: str) -> None:
        """Create parents with a child each; there are no others."""
        for namespace in (FINE, BROKEN):
            for resource in (SECRETS, MAPS):
                old = [it.metadata.name for it in await self._all(resource, namespace)]
                if old:
                    await self._release.kubectl("delete", str(resource), "-n", namespace, *old)
            await self._apply(*(secret(namespace, f"{word}-{n}") for n in range(OBJECTS)))
            await self._apply(*[child_of(it) for it in await self._all(SECRETS, namespace)])

    async def forbid(self) -> None:
        """Take the right away."""
        get = ("get", "rolebindings", "-n", BROKEN, "-o", "json")
        (self._binding,) = json.loads(await self._release.kubectl(*get))["items"]
        await self._release.kubectl("delete", "rolebindings", "--all", "-n", BROKEN)

    async def allow(self) -> None:
        """Give the right back."""
        meta = self._binding["metadata"]
        assert isinstance(meta, dict)
        kept = {key: meta[key] for key in ("name", "namespace")}
        await self._apply({**self._binding, "metadata": kept})

    async def reject(self) -> None:
        """Let a policy reject every update of Secrets, and wait until it does."""
        await self._apply(*policy())

        async def rejects() -> None:
            assert not await self._is_writable()

        await eventually(rejects, within=WITHIN)

    async def accept(self) -> None:
        """Remove the policy, and wait until it is gone."""
        for body in policy():
            await self._release.kubectl("delete", str(body["kind"]), "rejects-updates")
        await eventually(self._is_writable, within=WITHIN)

    async def _is_writable(self) -> bool:
        secrets = self._objects.of(await self._objects.find(SECRETS))
        body: Json = {"metadata": {"annotations": {"tried-at": str(time.monotonic())}}}
        try:
            await secrets.patch(ObjectRef(BROKEN, "object-rejected-0"), body)
        except Rejected:
            return False
        return True

    @asynccontextmanager
    async def _renewing(self, *shards: str) -> AsyncIterator[None]:
        """Let shards of each ring renew their Leases until they are no longer in `_alive`."""
        self._alive = set(shards)
        async with asyncio.TaskGroup() as group:
            renewing = group.create_task(self._renew())
            yield
            renewing.cancel()

    async def _renew(self) -> None:
        while True:
            now = dict.fromkeys(self._alive, time.monotonic())
            await self._apply(*(lease(ring, shard) for ring in RINGS for shard in now))
            self._renewed |= now
            await asyncio.sleep(1)

    async def _rescued(self, ring: RingName, dead: str, namespace: str, since: float) -> float:
        """Return after how many seconds no object of a namespace is on the dead shard."""

        async def rescued() -> None:
            for resource in (SECRETS, MAPS) if ring == LEADS else (SECRETS,):
                owners = self._owners(ring, await self._all(resource, namespace))
                assert f"{ring}-{dead}" not in owners
                assert "" not in owners

        await eventually(rescued, within=WITHIN)
        return time.monotonic() - since

    async def _watch_condition(self, ring: RingName) -> list[Condition]:
        seen = list[Condition]()
        for _ in range(3 * SECONDS):
            seen.append(await self._covered(ring))
            await asyncio.sleep(1)
        return seen

    def _owned(self, ring: RingName, *shards: str) -> Callable[[], Awaitable[None]]:
        """Return a probe for each shard having objects in each namespace."""

        async def probe() -> None:
            for namespace in (FINE, BROKEN):
                owners = self._owners(ring, await self._all(SECRETS, namespace))
                assert owners == {f"{ring}-{shard}" for shard in shards}

        return probe

    def _available(self, ring: RingName, shards: int) -> Callable[[], Awaitable[None]]:
        async def probe() -> None:
            status = (await rings(self._client).get(ObjectRef("", ring))).status
            assert status.available_shards == shards

        return probe

    def _is_covered(self, ring: RingName) -> Callable[[], Awaitable[None]]:
        async def probe() -> None:
            condition = await self._covered(ring)
            assert condition.status == "True", condition

        return probe

    async def _covered(self, ring: RingName) -> Condition:
        found = (await rings(self._client).get(ObjectRef("", ring))).status
        condition = condition_of(found, COVERED)
        assert condition is not None
        return condition

    def _owners(self, ring: RingName, objects: Sequence[PartialObject]) -> set[str]:
        return {obj.metadata.label(owner_label(ring)) for obj in objects}

    async def _all(self, resource: GroupResource, namespace: str) -> Sequence[PartialObject]:
        found = await self._objects.find(resource)
        listed = await self._objects.of(found, namespace=namespace).list()
        return [it for it in listed.items if it.metadata.name.startswith("object-")]

    async def _apply(self, *bodies: Json) -> None:
        found = {"apiVersion": "v1", "kind": "List", "items": list(bodies)}
        await asyncio.to_thread(self._release.plane.apply, json.dumps(found))


async def each(work: Callable[[RingName], Awaitable[T]]) -> Mapping[RingName, T]:
    """Do something for all rings at once."""
    return dict(zip(RINGS, await asyncio.gather(*map(work, RINGS)), strict=True))


def ring_of(name: RingName) -> Mapping[str, object]:
    controlled = [{"resource": MAPS.resource}] if name == LEADS else []
    return {
        "name": name,
        "resources": [{"resource": SECRETS.resource, "controlledResources": controlled}],
        "namespaces": [FINE, BROKEN],
        "create": True,
        "spec": {"shardNamespaces": [FINE], "placement": {"strategy": RINGS[name]}},
    }


def secret(namespace: str, word: str) -> dict[str, Json]:
    metadata: Json = {"name": f"object-{word}", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


def child_of(parent: PartialObject) -> dict[str, Json]:
    meta = parent.metadata
    reference: Json = {
        "apiVersion": "v1",
        "kind": "Secret",
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
    }
    metadata: Json = {
        "name": meta.name,
        "namespace": meta.namespace,
        "ownerReferences": [reference],
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def lease(ring: str, shard: str) -> dict[str, Json]:
    name, now = f"{ring}-{shard}", format_time(datetime.now(UTC))
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": FINE, "labels": {RING_LABEL: ring}},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": SECONDS,
            "acquireTime": now,
            "renewTime": now,
        },
    }


def policy() -> tuple[dict[str, Json], dict[str, Json]]:
    version, metadata = "admissionregistration.k8s.io/v1", {"name": "rejects-updates"}
    rule: Json = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["UPDATE"],
        "resources": [SECRETS.resource],
    }
    namespace: Json = {"matchLabels": {"kubernetes.io/metadata.name": BROKEN}}
    return (
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {**metadata},
            "spec": {
                "matchConstraints": {"resourceRules": [rule], "namespaceSelector": namespace},
                "validations": [{"expression": "false", "message": "rejected by the test"}],
            },
        },
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {**metadata},
            "spec": {"policyName": "rejects-updates", "validationActions": ["Deny"]},
        },
    )


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("fault", ["forbidden", "rejected"])
def test_the_namespace_that_is_fine_is_rescued_and_then_the_other_one(
    told: Mapping[str, Mapping[RingName, Seen]], fault: str, ring: RingName
) -> None:
    seen = told[fault][ring]

    assert 0 < seen.rescued < WITHIN
    assert 0 < seen.returned < WITHIN


@pytest.mark.parametrize("ring", RINGS)
def test_what_cannot_be_counted_is_unknown_and_named(
    told: Mapping[str, Mapping[RingName, Seen]], ring: RingName
) -> None:
    meanwhile = told["forbidden"][ring].meanwhile

    assert {(c.status, c.reason) for c in meanwhile} == {("Unknown", UNCOUNTED)}
    assert all(f"secrets in {BROKEN}" in c.message for c in meanwhile)


@pytest.mark.parametrize("ring", RINGS)
def test_what_cannot_be_written_has_no_available_owner(
    told: Mapping[str, Mapping[RingName, Seen]], ring: RingName
) -> None:
    meanwhile = told["rejected"][ring].meanwhile

    assert "True" not in {c.status for c in meanwhile[SECONDS:]}
    assert (meanwhile[-1].status, meanwhile[-1].reason) == ("False", UNOWNED)
