"""The chart on a real API server: what it accepts, what it keeps, which rights it gives."""

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from hack import binaries, objects
from hack.control_plane import ControlPlane, KubectlError
from sharder.core.api.meta import Json
from tests.chart.matrix import MATRIX, NEEDS_CERT_MANAGER
from tests.chart.rendering import CHART, REQUIRED, Helm, decode_manifests, find

RESOURCES = [{"group": "apps", "resource": "deployments"}]
MONITORING_CRDS = Path(__file__).parents[1] / "fixtures/monitoring-crds.yaml"
VALUES = {**REQUIRED, "rings": [{"name": "web", "resources": RESOURCES}]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The chart as installed under a name and in a namespace of its own."""

    name: str
    helm: Helm
    control_plane: ControlPlane

    @property
    def namespace(self) -> str:
        return self.name


@pytest.fixture(scope="module")
def release(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    home = tmp_path_factory.mktemp("helm")
    helm = Helm(program=binaries.helm(), home=home, kubeconfig=control_plane.admin_kubeconfig)
    name = f"sharder-{uuid.uuid4().hex[:8]}"
    control_plane.apply(MONITORING_CRDS)
    # Other tests put the CRD there by kubectl, so it may have to be taken over.
    helm.run(
        "install", name, str(CHART), "-n", name, "--create-namespace", "--take-ownership",
        "--force-conflicts", values=VALUES,
    )  # fmt: skip
    control_plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
    yield Release(name=name, helm=helm, control_plane=control_plane)
    helm.run("uninstall", name, "-n", name)


def ring(spec: Mapping[str, Json], name: str = "chart-test") -> str:
    """Return the manifest of a ControllerRing."""
    return json.dumps(objects.ring(name, spec))


def dry_run(control_plane: ControlPlane, manifest: str) -> str:
    return control_plane.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-", stdin=manifest
    )


@pytest.mark.parametrize(
    ("case", "name"),
    [
        *[(case, "another") for case in MATRIX if case not in NEEDS_CERT_MANAGER],
        ("names that look like something else", "yes"),
        ("names that look like something else", "1234"),
    ],
)
def test_the_server_accepts_every_object(release: Release, case: str, name: str) -> None:
    release.control_plane.apply([objects.namespace(name)])
    rendered = release.helm.template(MATRIX[case], release=name, namespace=name)

    accepted = dry_run(release.control_plane, rendered)

    assert len(json.loads(accepted)["items"]) == len(decode_manifests(rendered))


def test_the_pods_satisfy_the_restricted_pod_security_standard(release: Release) -> None:
    enforce = "pod-security.kubernetes.io/enforce=restricted"
    release.control_plane.kubectl("label", "--overwrite", "namespace", release.namespace, enforce)
    rendered = release.helm.template(release=release.name, namespace=release.namespace)
    template = msgspec.convert(
        find(rendered, "Deployment", release.name).spec["template"], dict[str, object]
    )
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod", "namespace": release.namespace},
        "spec": template["spec"],
    }

    accepted = dry_run(release.control_plane, json.dumps(pod))

    assert json.loads(accepted)["kind"] == "Pod"


def test_a_ring_has_a_short_name_and_columns(release: Release) -> None:
    name = f"{release.name}-columns"
    release.control_plane.apply(ring({"resources": [{"resource": "secrets"}]}, name))
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": "SoItIs",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind, status in (("Ready", "True"), ("Covered", "False"), ("Paused", "Unknown"))
    ]
    counts = {"objects": 9, "unassigned": 4, "unowned": 5, "draining": 1}
    said = {"availableShards": 2, "shards": 3, **counts, "conditions": conditions}
    status = {"status": said}
    patch = ("--subresource=status", "--type=merge", "-p", json.dumps(status))
    release.control_plane.kubectl("patch", "controllerring", name, *patch)

    short, wide = (_columns(release, name, *options) for options in ((), ("-o", "wide")))

    # The reference's columns are all there, and in their order.
    assert [*short] == ["NAME", "READY", "AVAILABLE", "SHARDS", "OBJECTS", "UNOWNED", "AGE"]
    assert {"READY": "True", "AVAILABLE": "2", "SHARDS": "3"}.items() <= short.items()
    assert {"OBJECTS": "9", "UNOWNED": "5"}.items() <= short.items()
    assert {"STRATEGY": "ConsistentHash", "UNASSIGNED": "4"}.items() <= wide.items()
    assert {"COVERED": "False", "PAUSED": "Unknown", "REASON": "SoItIs"}.items() <= wide.items()


def _columns(release: Release, ring_name: str, *options: str) -> dict[str, str]:
    header, row = release.control_plane.kubectl("get", "ring", ring_name, *options).splitlines()
    return dict(zip(header.split(), row.split(), strict=True))


def test_the_name_of_a_ring_has_at_most_63_characters(release: Release) -> None:
    assert dry_run(release.control_plane, ring({}, "a" * 63))

    with pytest.raises(KubectlError, match="must not be longer than 63 characters"):
        dry_run(release.control_plane, ring({}, "a" * 64))
