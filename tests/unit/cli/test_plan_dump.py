"""Facts about `sharder.cli.plan_dump`: a plan from what it prints is that of the cluster."""

import msgspec

from sharder.cli.cluster_view import plan
from sharder.cli.plan_dump import dump
from sharder.core.api.selector import LabelSelector
from sharder.core.names import LOAD_ANNOTATION
from sharder.core.preview.dump import decode_dump, plan_dump
from tests.support.read_cluster import ReadCluster
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


async def test_a_plan_from_a_dump_is_that_of_the_cluster() -> None:
    fake = await cluster()

    dumped = decode_dump(await dump(fake.cluster, name=DEMO))

    from_file = plan_dump(dumped, fake.cluster.now, LabelSelector())
    assert from_file == await plan(fake.cluster, name=DEMO)


async def test_a_dump_holds_no_data_and_nothing_out_of_scope() -> None:
    fake = await cluster()

    lines = (await dump(fake.cluster, name=DEMO)).splitlines()

    assert b"hunter2" not in b"".join(lines)
    assert b"out-of-scope" not in b"".join(lines)
    objects = [msgspec.json.decode(line, type=dict[str, object]) for line in lines]
    assert {key for each in objects if each["kind"] == "Secret" for key in each} == {
        "apiVersion",
        "kind",
        "metadata",
    }
    assert any(LOAD_ANNOTATION.encode() in line and NEXT.encode() in line for line in lines)
