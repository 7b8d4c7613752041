"""Facts about `sharder.cli.ring_dump`: a plan from what it prints is that of the cluster."""

from collections.abc import AsyncGenerator
from dataclasses import replace

import msgspec
from typing_extensions import override

from sharder.cli.cluster import Cluster
from sharder.cli.plan import plan
from sharder.cli.ring_dump import dump
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.api.selector import LabelSelector
from sharder.core.names import LOAD_ANNOTATION
from sharder.core.preview.dump import decode_dump, plan_dump
from tests.support.fake_store import FakeStore
from tests.support.fakes import FakeObjects
from tests.support.read_cluster import RESOURCES, ReadCluster
from tests.support.values import (
    CONFIGMAPS,
    DEMO,
    NEXT,
    SECRETS,
    WIDGETS,
    A,
    B,
    named,
    obj,
    snapshot,
)

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def cluster() -> ReadCluster:
    """A ring whose objects are not all where they belong."""
    fake = await ReadCluster().filled()
    name = named(SECRETS, B, snapshot())
    says = {LAST_APPLIED: '{"data":{"password":"hunter2"}}', LOAD_ANNOTATION: "cpu=1", NEXT: B}
    await fake.add(SECRETS, obj(SECRETS, name, owner=A, drain="true", annotations=says))
    await fake.add(CONFIGMAPS, obj(CONFIGMAPS, "child", owner=A, controlled_by=name))
    await fake.add(WIDGETS, obj(WIDGETS, "without owner"))
    await fake.add(SECRETS, obj(SECRETS, "out-of-scope", namespace="elsewhere"))
    return fake


async def dumped(of: Cluster) -> bytes:
    return b"".join([line async for line in dump(of, name=DEMO)])


async def test_a_plan_from_a_dump_is_that_of_the_cluster() -> None:
    fake = await cluster()

    read = decode_dump(await dumped(fake.cluster))

    from_file = plan_dump(read, fake.cluster.now, LabelSelector())
    assert from_file == await plan(fake.cluster, name=DEMO)


async def test_a_dump_holds_no_data_and_nothing_out_of_scope() -> None:
    fake = await cluster()

    lines = (await dumped(fake.cluster)).splitlines()

    assert b"hunter2" not in b"".join(lines)
    assert b"out-of-scope" not in b"".join(lines)
    objects = [msgspec.json.decode(line, type=dict[str, object]) for line in lines]
    assert {key for each in objects if each["kind"] == "Secret" for key in each} == {
        "apiVersion",
        "kind",
        "metadata",
    }
    assert any(LOAD_ANNOTATION.encode() in line and NEXT.encode() in line for line in lines)


async def test_a_dump_has_the_namespaces_with_their_labels_alone() -> None:
    fake = await cluster()
    labels, annotations = {"team": "red"}, {LAST_APPLIED: "{}"}
    metadata: Json = {"name": "red", "labels": labels, "annotations": annotations}
    await fake.namespaces.create("", {"metadata": metadata})

    read = decode_dump(await dumped(fake.cluster))

    (red,) = (each for each in read.namespaces if each.metadata.name == "red")
    assert (red.metadata.labels, red.metadata.annotations) == (labels, {})


class Endless(FakeStore[PartialObject]):
    """Secrets without end; `log` notes each that is read."""

    log: list[str]

    @override
    async def stream(
        self, labels: str = "", fields: str = ""
    ) -> AsyncGenerator[PartialObject, None]:
        while True:
            self.log.append("read")
            yield obj(SECRETS, "one of many")


class ManySecrets(FakeObjects):
    """A cluster with more Secrets than fit into memory."""

    def __init__(self, log: list[str]) -> None:
        super().__init__(*RESOURCES)
        self._log = log

    @override
    def of(
        self, resource: Resource, labels: str = "", *, namespace: str = "", fields: str = ""
    ) -> FakeStore[PartialObject]:
        if resource.id != SECRETS:
            return super().of(resource, labels, namespace=namespace, fields=fields)
        endless = Endless(PartialObject, resource)
        endless.log = self._log
        return endless


async def test_an_object_is_printed_before_the_next_is_read() -> None:
    fake = await cluster()
    log = list[str]()
    endless = replace(fake.cluster, objects=ManySecrets(log))

    async for line in dump(endless, name=DEMO):
        if b"one of many" in line:
            log.append("printed")
        if len(log) == 6:
            break

    assert log == ["read", "printed"] * 3
