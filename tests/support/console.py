"""What people read when they type commands against a running service."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from hack.control_plane import KubectlError
from sharder.cli.reports import Explanation
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.preview.report import PlanReport
from tests.support.scene import Scene
from tests.support.service import STRATEGIES, Service
from tests.support.users import CONTENT

SHARDER: Final = Path(sys.executable).with_name("sharder")


async def create_aloud(
    service: Service, scene: Scene, of: Resource, name: str, *,
    labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None,
) -> tuple[PartialObject, str]:  # fmt: skip
    """Create an object with kubectl; return it and the warnings of the response."""
    group = f"{of.id.group}/" if of.id.group else ""
    manifest = {
        "apiVersion": f"{group}{of.version}",
        "kind": of.kind,
        "metadata": {
            "name": name,
            "namespace": scene.place(of),
            "labels": labels or {},
            "annotations": annotations or {},
        },
        **CONTENT.get(of.kind, {}),
    }
    command = ("create", "-f", "-", "--warnings-as-errors")
    try:
        await asyncio.to_thread(
            service.plane.kubectl, *command, kubeconfig=service.author, stdin=json.dumps(manifest)
        )
    except KubectlError as error:
        said = str(error).partition("--warnings-as-errors: ")[2]
    else:
        said = ""
    return await scene.admin.get(of, name, namespace=scene.place(of)), said


async def explain(service: Service, scene: Scene, obj: PartialObject) -> Explanation:
    """Return what `sharder explain` tells of a ConfigMap."""
    printed = await _print(service, "explain", scene.ring, "configmaps", str(obj.metadata.ref))
    return msgspec.json.decode(printed, type=Explanation)


async def plan(service: Service, scene: Scene) -> PlanReport:
    """Return what `sharder plan` tells of the ring."""
    return msgspec.json.decode(await _print(service, "plan", scene.ring), type=PlanReport)


async def _print(service: Service, *command: str) -> bytes:
    def run() -> bytes:
        done = subprocess.run(
            [SHARDER, *command, "-o", "json"],
            env={**os.environ, "KUBECONFIG": str(service.admin), "PYTHONPATH": str(STRATEGIES)},
            capture_output=True,
            check=True,
        )
        return done.stdout

    return await asyncio.to_thread(run)


async def events_of(service: Service, namespace: str, name: str) -> list[tuple[str, str]]:
    """Return reason and message of each Event about the objects of that name."""
    command = ("get", "events", "-n", namespace, "-o", "json")
    selector = f"--field-selector=involvedObject.name={name}"
    found = await asyncio.to_thread(service.plane.kubectl, *command, selector)
    return [(event["reason"], event["message"]) for event in json.loads(found)["items"]]
