"""Two thousand odd objects through a real API server: it refuses none because of us.

The webhook is served by this process; who may write what is not in question here, so a person
with all rights writes.  What the server does without us is asked by a dry run of the same requests
before the webhook is registered.
"""

import asyncio
import base64
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from random import Random
from urllib.parse import quote

import msgspec
import pytest

from sharder.core.api.meta import Json, ObjectMeta, PartialObject, Resource
from sharder.core.api.ring import ControllerRing, RingResource, RingSpec
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import ApiError
from sharder.core.names import GroupResource, RingName
from sharder.core.nesting import cut
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot, Role
from sharder.core.webhook_configuration import Endpoint, Registration, configuration_of
from sharder.kube.client import Client, connect
from sharder.kube.objects import KubeObjects
from sharder.kube.typed_stores import MUTATING, namespaces
from sharder.tls import issue as tls
from tests.support.eventually import eventually
from tests.support.odd_objects import (
    CONFIGMAPS,
    CRON_JOBS,
    SECRETS,
    SIGNING_REQUESTS,
    OddObject,
    odd_object,
)
from tests.support.values import A, B, C, available
from tests.unit.webhook.reviews import Counts, validation_with
from webhook import Server, ServerTls, Webhook
from webhook.endpoint import AdmissionEndpoint

AT_ONCE = 16
SECONDS = 30
"""How long a request, and a call of the webhook in it, may take on a slow machine."""

METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A ring over five resources, and the webhook that decides for it."""

    client: Client
    counts: Counts
    configuration: Json
    custom: Resource
    snapshot: RingSnapshot

    @property
    def name(self) -> str:
        """Of the ring and of the namespace."""
        return self.snapshot.name

    def path(self, resource: Resource, name: str = "") -> str:
        group, version = resource.id.group, resource.version
        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        namespace = f"/namespaces/{self.name}" if resource.namespaced else ""
        return f"{prefix}{namespace}/{resource.id.resource}/{quote(name, safe='')}".rstrip("/")

    async def create(self, odd: OddObject, *, dry_run: bool = False) -> PartialObject:
        return await self._send("POST", self.path(odd.resource), odd.body, dry_run=dry_run)

    async def replace(
        self, odd: OddObject, stored: PartialObject, *, dry_run: bool = False
    ) -> PartialObject:
        group = odd.resource.id.group
        body = {
            "apiVersion": f"{group}/v1" if group else "v1",
            "kind": odd.resource.kind,
            "metadata": {**odd.replacement, "name": stored.metadata.name},
        }
        path = self.path(odd.resource, stored.metadata.name)
        return await self._send("PUT", path, msgspec.json.encode(body), dry_run=dry_run)

    async def _send(self, method: str, path: str, body: bytes, *, dry_run: bool) -> PartialObject:
        raw: Json = msgspec.Raw(body)  # sent as it stands
        answer = await self.client.request(
            method,
            path,
            query={"dryRun": "All"} if dry_run else None,
            body=raw,
            accept=METADATA,
            timeout=SECONDS,
        )
        # Their managedFields are nested as deeply as the objects.
        return msgspec.json.decode(cut(answer), type=PartialObject)

    @asynccontextmanager
    async def registered(self) -> AsyncIterator[None]:
        """Have the API server call us."""
        configurations = KubeObjects(self.client).of(MUTATING)
        applied = await configurations.apply(
            msgspec.convert(self.configuration, PartialObject).metadata.ref, self.configuration
        )
        await eventually(lambda: self._is_called(wanted=True), within=SECONDS)
        yield
        meta = applied.metadata
        await configurations.delete(meta.ref, uid=meta.uid, resource_version=meta.resource_version)
        await eventually(lambda: self._is_called(wanted=False), within=SECONDS)

    async def _is_called(self, *, wanted: bool) -> bool:
        body = b'{"metadata": {"name": "probe"}}'
        probe = await self._send("POST", self.path(CONFIGMAPS), body, dry_run=True)
        return probe.metadata.has_label(self.snapshot.owner_label) is wanted


@pytest.fixture
async def client(admin_kubeconfig: Path) -> AsyncIterator[Client]:
    client = await connect(str(admin_kubeconfig))
    yield client
    await client.close()


@pytest.fixture
async def stage(client: Client) -> AsyncIterator[Stage]:
    name = f"odd-{uuid.uuid4().hex[:8]}"
    await namespaces(client).create("", {"metadata": {"name": name}})
    custom = await serve_custom_resource(client, f"{name}.example.com")
    resources = (CONFIGMAPS, SECRETS, SIGNING_REQUESTS, CRON_JOBS, custom)
    ring = ControllerRing(
        metadata=ObjectMeta(name=name, uid=str(uuid.uuid4())),
        spec=RingSpec(
            resources=tuple(
                RingResource(group=r.id.group, resource=r.id.resource) for r in resources
            ),
            namespace_selector=LabelSelector(match_labels={"kubernetes.io/metadata.name": name}),
        ),
    )
    snapshot = build(
        ring, members=available(A, B, C), namespaces=frozenset({name}), served=resources
    )
    counts = Counts()
    app = Webhook(
        AdmissionEndpoint(
            rings={RingName(name): snapshot}.get,
            sharders=frozenset[str],
            is_stale=lambda: False,
            observer=counts,
        ),
        readiness=lambda: None,
        validation=validation_with(),
    )
    now = datetime.now(UTC)
    authority = tls.make_authority(now)
    pair = tls.issue_serving(
        authority,
        dns_names=[],
        ip_addresses=[ip_address("127.0.0.1")],
        now=now,
        validity=timedelta(days=1),
    )
    async with Server(
        app, host="127.0.0.1", port=0, tls=ServerTls(pair.certificate, pair.key)
    ) as server:
        endpoint = Endpoint(
            url=f"https://127.0.0.1:{server.port}",
            ca_bundle=base64.b64encode(authority.certificate).decode(),
        )
        registration = Registration(
            endpoint=endpoint,
            default_namespaces=LabelSelector(),
            excluded=frozenset(),
            sharders=frozenset(),
        )
        yield Stage(
            client=client,
            counts=counts,
            configuration=patient(configuration_of(ring, registration, ())),
            custom=custom,
            snapshot=snapshot,
        )


async def serve_custom_resource(client: Client, group: str) -> Resource:
    anything: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: Json = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": anything},
    }
    crd: Json = {
        "metadata": {"name": f"oddities.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "oddities", "kind": "Oddity"},
            "versions": [version],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await client.request("POST", path, body=crd)
    custom = Resource(
        id=GroupResource(group, "oddities"), version="v1", kind="Oddity", namespaced=True
    )
    await eventually(lambda: client.request("GET", f"/apis/{group}/v1/oddities"), within=SECONDS)
    return custom


def patient(configuration: Json) -> Json:
    """Let the API server wait longer: a busy machine is no answer to the question here."""
    text = msgspec.json.encode(configuration)
    patient: Json = msgspec.json.decode(
        text.replace(b'"timeoutSeconds":5', b'"timeoutSeconds":30')
    )
    assert patient != configuration
    return patient


async def all_of(
    act: Callable[[OddObject], Awaitable[PartialObject]], odds: Sequence[OddObject]
) -> dict[int, PartialObject | ApiError]:
    """Do it with all, and return by number what came of it."""
    room, results = asyncio.Semaphore(AT_ONCE), dict[int, PartialObject | ApiError]()

    async def one(odd: OddObject) -> None:
        async with room:
            try:
                results[odd.number] = await act(odd)
            except ApiError as error:
                results[odd.number] = error

    async with asyncio.TaskGroup() as group:
        for odd in odds:
            group.create_task(one(odd))
    return results


def taken(results: dict[int, PartialObject | ApiError]) -> dict[int, PartialObject]:
    return {n: result for n, result in results.items() if isinstance(result, PartialObject)}


@pytest.mark.parametrize("count", [500, pytest.param(2_000, marks=pytest.mark.long)])
async def test_what_the_server_accepts_without_the_webhook_it_accepts_with_it(
    stage: Stage, count: int
) -> None:
    ring = stage.snapshot
    ours = (ring.owner_label, ring.drain_label, ring.next_annotation)
    rng = Random(count)
    odds = [
        odd_object(rng, number, run=stage.name, custom=stage.custom, ours=ours)
        for number in range(count)
    ]

    without = taken(await all_of(lambda odd: stage.create(odd, dry_run=True), odds))
    async with stage.registered():
        created = await all_of(stage.create, odds)
    replaced = [odd for odd in odds if odd.number in taken(created)][: count // 4]
    stored = taken(created)
    kept = taken(
        await all_of(lambda odd: stage.replace(odd, stored[odd.number], dry_run=True), replaced)
    )
    async with stage.registered():
        changed = await all_of(lambda odd: stage.replace(odd, stored[odd.number]), replaced)

    assert {odds[n].body: created[n] for n in without if n not in stored} == {}
    assert {odds[n].replacement: changed[n] for n in kept if n not in taken(changed)} == {}
    assert len(without) > count / 2
    assert len(kept) > count / 8
    assert {outcome for _, outcome in stage.counts.answers} <= {
        *("assigned", "unchanged", "restored"),
    }
    assert {
        odd.body: stored[odd.number].metadata.labels
        for odd in odds
        if odd.number in stored and not is_placed(ring, odd.resource, stored[odd.number])
    } == {}
    moved = [
        n for n, obj in taken(changed).items() if ring.owner_of(obj) != ring.owner_of(stored[n])
    ]
    assert moved == []


def is_placed(ring: RingSnapshot, resource: Resource, new: PartialObject) -> bool:
    """Whether a new object is where the ring wants it, and is not draining."""
    group = resource.id.group
    obj = PartialObject(
        api_version=f"{group}/{resource.version}" if group else resource.version,
        kind=resource.kind,
        metadata=new.metadata,
    )
    return ring.owner_of(obj) == ring.wanted(ring.key_of(obj, Role.MAIN)) and not (
        ring.is_draining(obj)
    )
