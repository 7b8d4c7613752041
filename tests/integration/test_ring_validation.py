"""What the API server answers to writes of a ring, with the real sharder behind it."""

import asyncio
import json
import uuid

import pytest

from hack.control_plane import KubectlError
from sharder.controllers.leader_controllers import APPLY_SECONDS
from sharder.core.api.meta import Json
from sharder.core.api.ring import Condition
from sharder.core.errors import Rejected
from sharder.core.names import (
    VALIDATION_NAME,
    GroupResource,
    RingName,
    owner_label,
    webhook_configuration,
)
from sharder.core.ring.build import reason_against
from sharder.kube.typed_stores import RINGS, VALIDATING
from tests.support.eventually import eventually
from tests.support.scene import Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, PODS, WITHIN

SELF_CONTROLLED: Json = [
    {"resource": "secrets"},
    {"resource": "configmaps", "controlledResources": [{"resource": "secrets"}]},
]
"""The CRD takes it: a schema compares no two lists."""

DUPLICATE = (
    'spec.resources[1].controlledResources[0]: Duplicate value: "secrets": spec.resources[0] lists'
    " it as a main resource, and an object is placed either by itself or with what controls it:"
    " remove one of the two"
)


def manifest(**spec: Json) -> str:
    return json.dumps(
        {
            "apiVersion": "sharding.timebertt.dev/v1alpha1",
            "kind": "ControllerRing",
            "metadata": {"name": f"ring-{uuid.uuid4().hex[:8]}"},
            "spec": spec,
        }
    )


async def kubectl(service: Service, *command: str, stdin: str | None = None) -> str:
    """Return what a dry run of kubectl says if it fails, for which a warning is enough."""
    try:
        await asyncio.to_thread(
            service.plane.kubectl, *command, "--dry-run=server", "--warnings-as-errors",
            stdin=stdin,
        )  # fmt: skip
    except KubectlError as error:
        return str(error).partition("--warnings-as-errors: ")[2]
    return ""


async def until_refused(service: Service) -> str:
    """Wait until the API server asks about rings; return what it says of a wrong one."""

    async def refused() -> str:
        wrong = manifest(resources=SELF_CONTROLLED, shardNamespaces=["controllers"])
        said = await kubectl(service, "apply", "-f", "-", stdin=wrong)
        assert said
        return said

    return await eventually(refused, within=APPLY_SECONDS + WITHIN)


async def slip_in(scene: Scene, spec: Json) -> None:
    """Change a ring while the API server does not ask."""

    async def written() -> None:
        await scene.admin.delete(VALIDATING, VALIDATION_NAME)
        try:
            await scene.admin.patch(RINGS, scene.ring, {"spec": spec})
        except Rejected as error:
            raise AssertionError("it still asks") from error

    await eventually(written, within=WITHIN)


async def until_ready(scene: Scene, *, ready: bool) -> Condition:
    async def told() -> Condition:
        ring = await scene.admin.ring(scene.ring)
        found = next(c for c in ring.status.conditions if c.type == "Ready")
        assert found.observed_generation == ring.metadata.generation
        assert found.status == str(ready), found.message
        return found

    return await eventually(told, within=WITHIN)


async def test_a_resource_in_two_lists_is_refused_with_field_value_and_advice(
    service: Service,
) -> None:
    said = await until_refused(service)

    assert "is invalid" in said
    assert said.endswith(DUPLICATE)


@pytest.mark.parametrize(
    ("group", "resource"),
    [
        ("coordination.k8s.io", "leases"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("sharding.timebertt.dev", "controllerrings"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("", "events"),
    ],
)
async def test_what_is_never_sharded_is_refused_with_the_reason(
    service: Service, group: str, resource: str
) -> None:
    await until_refused(service)
    listed: Json = [{"group": group, "resource": resource}]
    wrong = manifest(resources=listed, shardNamespaces=["controllers"])

    said = await kubectl(service, "apply", "-f", "-", stdin=wrong)

    reason = reason_against(GroupResource(group, resource))
    assert "spec.resources[0]: Forbidden: " in said
    assert f"are never sharded, because {reason}: remove it" in said


async def test_a_ring_over_leases_that_slips_in_is_not_ready_and_touches_none(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS, shards="a") as scene:
        leases: Json = {"group": "coordination.k8s.io", "resource": "leases"}

        await slip_in(scene, {"resources": [{"resource": "configmaps"}, leases]})
        told = await until_ready(scene, ready=False)
        made = await scene.create(CONFIGMAPS, "config")
        await scene.until_owned(CONFIGMAPS, made)

        assert told.message.startswith("spec.resources[1]: Forbidden: leases.coordination.k8s.io")
        labelled = service.plane.kubectl(
            "get", "leases", "--all-namespaces", "--selector", owner_label(RingName(scene.ring))
        )
        assert labelled == ""
        webhook = service.plane.kubectl(
            "get", "mutatingwebhookconfiguration", webhook_configuration(RingName(scene.ring)),
            "-o", "jsonpath={.webhooks[*].rules[*].resources[*]}",
        )  # fmt: skip
        assert {*webhook.split()} == {"configmaps", "configmaps/status"}
        await scene.set_resources(CONFIGMAPS)
        await until_ready(scene, ready=True)
        assert await until_refused(service)


async def test_a_surprising_ring_is_accepted_with_a_warning_for_each_reason(
    service: Service,
) -> None:
    await until_refused(service)
    ring = manifest(
        resources=[{"resource": "secrets"}, {"group": "example.com", "resource": "gizmos"}],
        namespaceSelector={"matchLabels": {"example.com/no-namespace": "has"}},
    )

    said = await kubectl(service, "create", "-f", "-", stdin=ring)

    *warnings, last = said.splitlines()
    assert [warning.split(": ")[:2] for warning in warnings] == [
        ["Warning", "spec.namespaceSelector"],
        ["Warning", "spec.shardNamespaces"],
        ["Warning", "spec.resources[1]"],
    ]
    assert last == "error: 3 warnings received"


async def test_a_ring_that_slipped_in_is_not_ready_until_it_is_fixed_and_places_objects(
    service: Service,
) -> None:
    async with service.scene(CONFIGMAPS, PODS) as scene:
        await until_ready(scene, ready=True)
        pods: Json = {"resource": "pods"}
        twice: Json = [{"resource": "configmaps", "controlledResources": [pods]}, pods]

        await slip_in(scene, {"resources": twice})
        condition = await until_ready(scene, ready=False)
        made = await scene.create(CONFIGMAPS, "config")

        field = "spec.resources[0].controlledResources[0]: Duplicate value"
        assert condition.reason == "InvalidSpec"
        assert (
            f'{field}: "pods": spec.resources[1] lists it as a main resource' in condition.message
        )
        assert scene.owner_of(made) == scene.wanted(made)

        await scene.set_resources(CONFIGMAPS)
        await until_ready(scene, ready=True)
        assert await until_refused(service)
