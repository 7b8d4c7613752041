"""Facts about `sharder.cli.ring_dump`: a plan from what it prints is that of the cluster."""

from dataclasses import replace

import msgspec

from sharder.cli.cluster import Cluster
from sharder.cli.plan import plan
from sharder.cli.ring_dump import dump
from sharder.core.api.meta import Json
from sharder.core.api.selector import LabelSelector
from sharder.core.names import LOAD_ANNOTATION
from sharder.core.preview.dump import decode_dump, plan_dump
from tests.support.hooked_objects import Call, HookedObjects, on
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


async def test_an_object_is_printed_before_the_next_is_read() -> None:
    fake, log, hooked = await cluster(), list[str](), HookedObjects(*RESOURCES)
    for name in ("one", "two", "three"):
        await hooked.stores[SECRETS].create("default", {"metadata": {"name": name}})

    async def read(_call: Call) -> None:
        log.append("read")

    hooked.before.append(on("next", SECRETS, read))

    async for line in dump(replace(fake.cluster, objects=hooked), name=DEMO):
        if b'"Secret"' in line and b"resources" not in line:
            log.append("printed")

    assert log == ["read", "printed"] * 3
