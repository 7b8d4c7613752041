"""What the API server answers to writes of a ring, with the real sharder behind it."""

import asyncio
import json
import uuid

from hack import objects
from hack.control_plane import KubectlError
from sharder.controllers.leader import APPLY_SECONDS
from sharder.core.api.meta import Json
from tests.support.eventually import eventually
from tests.support.service import Service
from tests.support.users import WITHIN

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
    return json.dumps(objects.ring(f"ring-{uuid.uuid4().hex[:8]}", spec))


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


async def test_a_wrong_ring_is_refused_with_advice_and_a_surprising_one_taken_with_a_warning(
    service: Service,
) -> None:
    async def refused() -> str:
        wrong = manifest(resources=SELF_CONTROLLED, shardNamespaces=["controllers"])
        said = await kubectl(service, "apply", "-f", "-", stdin=wrong)
        assert said
        return said

    surprising = manifest(
        resources=[{"resource": "secrets"}, {"group": "example.com", "resource": "gizmos"}],
        namespaceSelector={"matchLabels": {"example.com/no-namespace": "has"}},
    )

    # The API server asks about rings some time after the sharder has asked for that.
    refusal = await eventually(refused, within=APPLY_SECONDS + WITHIN)
    *warnings, last = (await kubectl(service, "create", "-f", "-", stdin=surprising)).splitlines()

    assert "is invalid" in refusal
    assert refusal.endswith(DUPLICATE)
    told = [warning.split(": ")[:2] for warning in warnings]
    assert told == [["Warning", "spec.shardNamespaces"]]
    assert last == "error: 1 warning received"
