"""A shard that cannot watch is no shard: it finds the cause by itself, or leaves to others.

Shards of the SDK with ServiceAccounts of their own, beside a running sharder, on resources that
the tests serve in another version, or no longer.
"""

import asyncio
import json
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from hack.control_plane import ControlPlane
from hack.playground import SYSTEM
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.names import PROBLEM_ANNOTATION, GroupResource
from sharder.sdk import LeaseTiming, Request, Settings, Shard
from tests.support.eventually import eventually, never
from tests.support.scene import CONTROLLERS, Scene
from tests.support.service import Service

OPERATOR: Final = Path(__file__).parents[1] / "support" / "kopf_things.py"
OBSERVER: Final[Json] = [
    {
        "apiGroups": ["", "apiextensions.k8s.io"],
        "resources": ["namespaces", "customresourcedefinitions"],
        "verbs": ["list", "watch"],
    }
]
"""What kopf needs beside."""
SHARDER: Final = Path(sys.executable).with_name("sharder")
TIMING: Final = LeaseTiming(lease_duration=4, renew_deadline=3, retry_period=1)
ALL: Final = ("get", "list", "watch", "create", "update", "patch")
HEALED: Final = 60.0
"""Seconds within which a shard heals by itself."""


@dataclass
class Things:
    """Two resources of a group of their own, and the rights of sharder and shards to them."""

    plane: ControlPlane
    group: str = field(default_factory=lambda: f"g{uuid.uuid4().hex[:8]}.example.org")

    def resource(self, plural: str, version: str = "v1") -> Resource:
        kind = plural.removesuffix("s").capitalize()
        found = GroupResource(self.group, plural)
        return Resource(id=found, version=version, kind=kind, namespaced=True)

    async def serve(self, plural: str, **served: bool) -> None:
        """Serve a resource in these versions; the last one is stored."""
        kind = self.resource(plural).kind
        schema: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        versions: Json = [
            {
                "name": name,
                "served": is_served,
                "storage": name == list(served)[-1],
                "schema": {"openAPIV3Schema": schema},
            }
            for name, is_served in served.items()
        ]
        names = {"kind": kind, "plural": plural, "singular": kind.lower()}
        spec: Json = {
            "group": self.group,
            "names": names,
            "scope": "Namespaced",
            "versions": versions,
        }
        crd = f"{plural}.{self.group}"
        kind_of_crd = "CustomResourceDefinition"
        await self.apply("apiextensions.k8s.io/v1", kind_of_crd, crd, fields={"spec": spec})
        await self.kubectl("wait", "--for=condition=Established", f"crd/{crd}")

    async def withdraw(self, plural: str) -> None:
        await self.kubectl("delete", "crd", f"{plural}.{self.group}")

    async def allow(self, account: str, *verbs: str, namespace: str = CONTROLLERS) -> None:
        """Allow a ServiceAccount these verbs, and no others, on all resources of the group."""
        rule: Json = {"apiGroups": [self.group], "resources": ["*"], "verbs": verbs}
        await self._grant("Cluster", account, namespace, [rule] if verbs else [])

    async def account(self, account: str) -> Path:
        """Create a ServiceAccount for a shard, with all its rights; return its kubeconfig."""
        await self.apply("v1", "ServiceAccount", account, namespace=CONTROLLERS)
        verbs = ("get", "list", "create", "patch")
        rule: Json = {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": verbs,
        }
        await self._grant("", account, CONTROLLERS, [rule])
        await self._grant("Cluster", account, CONTROLLERS, OBSERVER, suffix="-observer")
        await self.allow(account, *ALL)
        return await asyncio.to_thread(self.plane.token_kubeconfig, CONTROLLERS, account)

    async def _grant(
        self, scope: str, account: str, namespace: str, rules: Json, suffix: str = ""
    ) -> None:
        """Grant the rules by a role: in the namespace, or with the scope `Cluster` in all."""
        rbac, name = "rbac.authorization.k8s.io", f"{account}-{self.group}{suffix}"
        place = "" if scope else namespace
        await self.apply(
            f"{rbac}/v1", f"{scope}Role", name, namespace=place, fields={"rules": rules}
        )
        subject: Json = {"kind": "ServiceAccount", "namespace": namespace, "name": account}
        fields: dict[str, Json] = {
            "roleRef": {"apiGroup": rbac, "kind": f"{scope}Role", "name": name},
            "subjects": [subject],
        }
        await self.apply(f"{rbac}/v1", f"{scope}RoleBinding", name, namespace=place, fields=fields)

    async def apply(
        self,
        api_version: str,
        kind: str,
        name: str,
        *,
        namespace: str = "",
        fields: Mapping[str, Json] | None = None,
    ) -> None:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        body = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **(fields or {})}
        await asyncio.to_thread(self.plane.apply, json.dumps(body))

    async def kubectl(self, *words: str) -> str:
        return await asyncio.to_thread(self.plane.kubectl, *words)


@dataclass
class Ring:
    """A ring over things that control parts, and the shards that reconcile them."""

    service: Service
    scene: Scene
    things: Things
    worked: list[tuple[str, str]] = field(default_factory=list)
    """Letter of the shard and name of the thing of each reconcile, or call of a handler."""

    @asynccontextmanager
    async def shard(self, letter: str, kubeconfig: Path) -> AsyncIterator[None]:
        """Run a shard of the SDK that creates a part for each thing."""
        settings = Settings(
            name=self.scene.shard(letter),
            namespace=CONTROLLERS,
            lease=TIMING,
            kubeconfig=str(kubeconfig),
            reacquire=True,
        )
        shard = Shard(ring=self.scene.ring, settings=settings)
        things, parts = (self.things.resource(plural) for plural in ("things", "parts"))

        async def reconcile(request: Request) -> None:
            metadata: Json = {"name": request.ref.name}
            api_version = f"{parts.id.group}/v1"
            await request.ensure(
                {"apiVersion": api_version, "kind": parts.kind, "metadata": metadata}
            )
            self.worked.append((letter, request.ref.name))

        shard.reconciler(str(things.id), reconcile, owns=[str(parts.id)])
        async with asyncio.TaskGroup() as group:
            task = group.create_task(shard.serve())
            await self._joined(letter)
            yield
            shard.stop()
            await asyncio.wait([task], timeout=HEALED)
            task.cancel()

    @asynccontextmanager
    async def operator(
        self, letter: str, kubeconfig: Path
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a shard on kopf."""
        resource = self.things.resource("things").id
        environment = {
            "KUBECONFIG": str(kubeconfig),
            "SHARD_NAME": self.scene.shard(letter),
            "SHARD_NAMESPACE": CONTROLLERS,
            "SHARD_LEASE_DURATION": str(TIMING.lease_duration),
            "SHARD_RENEW_DEADLINE": str(TIMING.renew_deadline),
            "SHARD_RETRY_PERIOD": str(TIMING.retry_period),
            "RESOURCE": f"{resource.resource}.{resource.group}",
            "RING": self.scene.ring,
            "PYTHONPATH": str(OPERATOR.parents[2]),
        }
        command = (sys.executable, "-m", "kopf", "run", "--all-namespaces", str(OPERATOR))
        process = await asyncio.create_subprocess_exec(
            *command, env={**os.environ, **environment}, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None

        async def read(lines: asyncio.StreamReader) -> None:
            async for line in lines:
                _, is_ours, name = line.decode().strip().partition("handled ")
                if is_ours:
                    self.worked.append((letter, name))

        async with asyncio.TaskGroup() as group:
            reading = group.create_task(read(process.stdout))
            try:
                await self._joined(letter)
                yield process
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()
                reading.cancel()

    async def _joined(self, letter: str) -> None:
        await eventually(lambda: self.holds(letter), within=HEALED)
        self.scene.shards.add(self.scene.shard(letter))

    async def create(self, name: str, version: str = "v1") -> PartialObject:
        """Create a thing."""
        of = self.things.resource("things", version)
        return await self.scene.admin.create(of, name, namespace=self.scene.namespace)

    async def holds(self, letter: str) -> bool:
        name = self.scene.shard(letter)
        lease = await self.scene.admin.lease(name, CONTROLLERS)
        return lease.spec.holder_identity == name

    async def problem(self, letter: str) -> str:
        lease = await self.scene.admin.lease(self.scene.shard(letter), CONTROLLERS)
        return lease.metadata.annotation(PROBLEM_ANNOTATION)

    async def is_worked(self, *names: str, by: str = "") -> bool:
        """Return whether all things were reconciled since `worked` was cleared, by this shard."""
        return {name for letter, name in self.worked if by in {"", letter}} >= {*names}

    async def check(self) -> list[tuple[str, str]]:
        """Return the findings of `sharder check` about the shards."""
        command = (str(SHARDER), "check", self.scene.ring, "-o", "json")
        done = await asyncio.to_thread(
            subprocess.run,
            [*command, "--kubeconfig", str(self.service.admin)],
            capture_output=True,
            check=False,
        )
        found = json.loads(done.stdout)["findings"]
        return [(each["level"], each["message"]) for each in found if each["check"] == "shards"]

    async def names(self, shard: str) -> bool:
        """Return whether an Event says that the shard left, and why."""
        fields = f"involvedObject.name={self.scene.ring},reason=ShardLeft"
        found = await self.things.kubectl(
            "get", "events", "-A", f"--field-selector={fields}", "-o", "json"
        )
        notes = [item["message"] for item in json.loads(found)["items"]]
        return any(shard in note and "cannot watch" in note for note in notes)


@asynccontextmanager
async def ring_of(service: Service, **versions: bool) -> AsyncIterator[Ring]:
    """Serve the resources in these versions, and set up a ring of them."""
    things = Things(service.plane)
    for plural in ("things", "parts"):
        await things.serve(plural, **versions)
    await things.allow("sharder", "get", "list", "watch", "patch", namespace=SYSTEM)
    main, part = things.resource("things"), things.resource("parts")
    async with service.scene(main, controlled=[part], shards="") as scene:
        yield Ring(service, scene, things)


async def test_shards_go_on_when_their_resources_are_served_in_another_version(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    async with ring_of(service, v1alpha1=True, v1=False) as ring:
        account = await ring.things.account("only")
        async with ring.shard("a", account), ring.operator("k", account):
            await ring.scene.until_available()
            names = ring.scene.names_on_each(ring.things.resource("things"), 4)
            before, after = names[::2], names[1::2]
            for name in before:
                await ring.create(name, "v1alpha1")
            await eventually(lambda: ring.is_worked(*before), within=HEALED)

            for plural in ("things", "parts"):
                await ring.things.serve(plural, v1alpha1=False, v1=True)
            for name in after:
                await ring.create(name)

            await eventually(lambda: ring.is_worked(*after), within=HEALED)
            assert [await ring.holds(letter) for letter in "ak"] == [True, True]
            # The part of a thing is watched again too.
            name = next(name for letter, name in ring.worked if letter == "a" and name in after)
            ring.worked.clear()
            part, touched = ring.things.resource("parts"), {"metadata": {"labels": {"x": "y"}}}
            await ring.scene.admin.patch(part, name, touched, namespace=ring.scene.namespace)
            await eventually(lambda: ring.is_worked(name, by="a"), within=HEALED)
    assert "giving the Lease back" not in caplog.text


async def test_shards_that_may_not_watch_leave_to_those_that_may_and_come_back(
    service: Service,
) -> None:
    async with AsyncExitStack() as stack:
        ring = await stack.enter_async_context(ring_of(service, v1=True))
        one, two = await ring.things.account("one"), await ring.things.account("two")
        await stack.enter_async_context(ring.shard("a", one))
        kopf = await stack.enter_async_context(ring.operator("k", one))
        await stack.enter_async_context(ring.shard("b", two))
        await ring.scene.until_available()
        names = ring.scene.names_on_each(ring.things.resource("things"), 3)
        for name in names:
            await ring.create(name)
        await eventually(lambda: ring.is_worked(*names), within=HEALED)

        await ring.things.allow("one", "get", "update", "patch")

        # A watch is authorized when it begins, and lasts until its resource changes.
        for plural in ("things", "parts"):
            await ring.things.serve(plural, v1alpha1=True, v1=True)
        await eventually(lambda: ring.is_worked(*names, by="b"), within=2 * HEALED)
        assert [await ring.holds(letter) for letter in "akb"] == [False, False, True]
        assert await kopf.wait() == 0
        for letter in "ak":
            await eventually(partial(ring.names, ring.scene.shard(letter)), within=HEALED)
            assert "cannot watch" in await ring.problem(letter)
        await ring.scene.until_condition("Watched", "False", "ShardUnable")
        found = [level for level, text in await ring.check() if "cannot watch" in text]
        assert found == ["WARN", "WARN"]

        await ring.things.allow("one", *ALL)
        await stack.enter_async_context(ring.operator("k", one))
        await eventually(lambda: ring.holds("a"), within=HEALED)
        await ring.scene.until_condition("Watched", "True", "WatchAllowed")
        assert [await ring.problem(letter) for letter in "ak"] == ["", ""]


async def test_a_resource_that_goes_and_comes_is_watched_again_and_keeps_no_shard_from_holding(
    service: Service,
) -> None:
    async with AsyncExitStack() as stack:
        ring = await stack.enter_async_context(ring_of(service, v1=True))
        account = await ring.things.account("both")
        for letter in "ab":
            await stack.enter_async_context(ring.shard(letter, account))
        await ring.scene.until_available()
        before, after, *_ = ring.scene.names_on_each(ring.things.resource("things"), 1)
        await ring.create(before)
        await eventually(lambda: ring.is_worked(before), within=HEALED)

        for plural in ("things", "parts"):
            await ring.things.withdraw(plural)
        await never(lambda: _has_left(ring), during=4 * TIMING.lease_duration)
        for plural in ("things", "parts"):
            await ring.things.serve(plural, v1=True)
        await ring.create(after)

        await eventually(lambda: ring.is_worked(after), within=HEALED)


async def _has_left(ring: Ring) -> None:
    assert not await ring.holds("a") or not await ring.holds("b") or await ring.problem("a")
