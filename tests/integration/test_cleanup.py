"""`sharder cleanup` on a real API server, as a process."""

import json
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from hack.control_plane import ControlPlane
from sharder.cli.reports import CleanupReport
from sharder.core.api.meta import Json, PartialObject
from sharder.core.names import (
    GroupResource,
    RingName,
    drain_label,
    next_annotation,
    owner_label,
)
from sharder.kube.client import Client, connect
from sharder.kube.objects import KubeObjects
from sharder.kube.store import KubeStore
from sharder.kube.typed_stores import (
    namespaces,
)
from sharder.runtime.task_pool import batch
from tests.support.documents import ROOT

CRD = ROOT / "charts/sharder/templates/crd.yaml"
SHARDER = Path(sys.executable).with_name("sharder")
CONFIGMAPS = GroupResource("", "configmaps")
ROLES = GroupResource("rbac.authorization.k8s.io", "clusterroles")
MAPS = 320
"""Objects in one namespace, all but two of them owned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What a ring has left: ConfigMaps and ClusterRoles, one of each draining."""

    ring: RingName
    client: Client
    kubeconfig: Path

    def clean(self, *arguments: str, kubeconfig: Path | None = None) -> CleanupReport:
        """Run the command, which has to succeed."""
        done = self.run(*arguments, "-o", "json", kubeconfig=kubeconfig)
        assert done.returncode == 0, done.stderr
        return msgspec.json.decode(done.stdout, type=CleanupReport)

    def run(
        self, *arguments: str, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        where = ("--kubeconfig", str(kubeconfig or self.kubeconfig))
        return subprocess.run(
            [str(SHARDER), "cleanup", self.ring, *arguments, *where],
            capture_output=True,
            text=True,
            check=False,
        )

    async def store(self, resource: GroupResource) -> KubeStore[PartialObject]:
        objects = KubeObjects(self.client)
        return objects.of(await objects.find(resource), f"left-by={self.ring}")

    async def marked(self, resource: GroupResource) -> int:
        """How many objects still have something of the ring on them."""
        ours = {owner_label(self.ring), drain_label(self.ring), next_annotation(self.ring)}
        metas = [obj.metadata for obj in (await (await self.store(resource)).list()).items]
        return sum(bool(ours & {*(m.labels or {}), *(m.annotations or {})}) for m in metas)

    def body(self, number: int) -> dict[str, Json]:
        labels: dict[str, Json] = {"left-by": self.ring, owner_label(self.ring): "shard-a"}
        annotations: dict[str, Json] = {"note": "kept"}
        if number == 0:
            labels[drain_label(self.ring)] = "true"
            annotations[next_annotation(self.ring)] = "shard-b"
        if number == 1:
            labels = {"left-by": self.ring, owner_label(RingName("another")): "shard-a"}
        name = f"{self.ring}-{number}"
        return {"metadata": {"name": name, "labels": labels, "annotations": annotations}}


@pytest.fixture
async def left(control_plane: ControlPlane) -> AsyncIterator[Left]:
    control_plane.apply(CRD)
    control_plane.kubectl("wait", "--for=condition=Established", "-f", str(CRD))
    client = await connect(str(control_plane.admin_kubeconfig))
    ring = RingName(f"old-{uuid.uuid4().hex[:8]}")
    left = Left(ring=ring, client=client, kubeconfig=control_plane.admin_kubeconfig)
    await namespaces(client).create("", {"metadata": {"name": ring}})
    maps, roles = await left.store(CONFIGMAPS), await left.store(ROLES)
    async with batch(20) as creates:
        for number in range(MAPS):
            await creates.add(maps.create(ring, left.body(number)))
        for number in range(3):
            await creates.add(roles.create("", left.body(number)))
    yield left
    await client.close()


async def test_a_dry_run_finds_everything_and_writes_nothing(left: Left) -> None:
    report = left.clean("--dry-run")

    found = {row.resource: row for row in report.resources}
    assert set(found) == {"configmaps", str(ROLES)}
    assert len(found["configmaps"].objects) == found["configmaps"].skipped == MAPS - 1
    assert set(found[str(ROLES)].objects) == {f"{left.ring}-0", f"{left.ring}-2"}
    assert await left.marked(CONFIGMAPS) == MAPS - 1


async def test_everything_is_cleaned_once_and_nothing_else_is_touched(left: Left) -> None:
    report = left.clean()

    assert {row.resource: (row.found, row.cleaned) for row in report.resources} == {
        "configmaps": (MAPS - 1, MAPS - 1),
        str(ROLES): (2, 2),
    }
    assert report.looked_at > 30
    assert (await left.marked(CONFIGMAPS), await left.marked(ROLES)) == (0, 0)
    metas = {o.metadata.name: o.metadata for o in (await (await left.store(ROLES)).list()).items}
    assert metas[f"{left.ring}-0"].labels == {"left-by": left.ring}
    assert metas[f"{left.ring}-0"].annotations == {"note": "kept"}
    assert metas[f"{left.ring}-1"].label(owner_label(RingName("another"))) == "shard-a"

    again = left.run()

    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout.startswith(f"nothing left of {left.ring} in ")


async def test_the_rights_that_are_documented_are_enough(
    left: Left, control_plane: ControlPlane
) -> None:
    user = f"cleaner-{left.ring}"
    grant(
        control_plane,
        user,
        rule("sharding.timebertt.dev", "controllerrings", "get"),
        rule("coordination.k8s.io", "leases", "list"),
        rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "list"),
        rule("", "configmaps", "list", "get", "patch"),
    )

    report = left.clean("--resource", "configmaps", kubeconfig=control_plane.kubeconfig(user))

    assert [(row.resource, row.cleaned) for row in report.resources] == [("configmaps", MAPS - 1)]
    assert report.warnings == ()


async def test_a_missing_right_is_named_and_the_rest_is_cleaned(
    left: Left, control_plane: ControlPlane
) -> None:
    user = f"cleaner-{left.ring}"
    grant(
        control_plane,
        user,
        rule("sharding.timebertt.dev", "controllerrings", "get"),
        rule("", "configmaps", "list", "get", "patch"),
        rule(ROLES.group, ROLES.resource, "list"),
    )

    done = left.run(
        *("--resource", str(ROLES), "--resource", "configmaps", "-o", "json"),
        kubeconfig=control_plane.kubeconfig(user),
    )

    report = msgspec.json.decode(done.stdout, type=CleanupReport)
    counts = [(row.resource, row.cleaned, row.failed) for row in report.resources]
    assert counts == [(str(ROLES), 0, 2), ("configmaps", MAPS - 1, 0)]
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("sharder: cleanup is incomplete: ")
    assert "grant it in a Role or ClusterRole" in done.stderr.splitlines()[-1]
    assert report.warnings[0].startswith("cannot check for other leftovers of the ring: ")


def rule(group: str, resource: str, *verbs: str) -> dict[str, list[str]]:
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def grant(plane: ControlPlane, user: str, *rules: dict[str, list[str]]) -> None:
    api = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": user},
        "rules": rules,
    }
    binding = {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": user},
        "subjects": [{"kind": "User", "name": user, "apiGroup": api}],
    }
    plane.apply("\n---\n".join(map(json.dumps, (role, binding))))
