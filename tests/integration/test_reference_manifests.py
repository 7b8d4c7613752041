"""Manifests written for timebertt/kubernetes-controller-sharding v0.13 work unchanged.

`tests/compat/manifests` has rings and configurations that use every field of the reference's two
APIs, v1alpha1.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
import yaml

from hack.certificates import Authority
from hack.control_plane import ControlPlane
from hack.playground import CRD, MANIFESTS, SYSTEM
from sharder.core.api.meta import ObjectMeta
from sharder.core.api.ring import RingStatus
from tests.support.eventually import eventually
from tests.support.manifests import CONFIGS, RINGS, SERVICE, URL, fields_of, ring_specs

NAMES = {"web", "secrets-to-files", "jobs"}

T = TypeVar("T", bound="Named")


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server shows of anything."""

    metadata: ObjectMeta


class Ring(Named, frozen=True, kw_only=True):
    """A ring with every field that was kept of it."""

    spec: object
    status: RingStatus = RingStatus()


class Webhook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How and for what the API server calls us."""

    client_config: object
    namespace_selector: object


class Configuration(Named, frozen=True, kw_only=True):
    """A MutatingWebhookConfiguration."""

    webhooks: tuple[Webhook, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a sharder with one of the configurations did."""

    ready: Mapping[str, str]
    """Status of each ring's condition `Ready`."""
    webhooks: Mapping[str, Configuration]
    """By name."""
    log: str


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """With the CRD, the sharder's ServiceAccount, and its rights on what the rings name."""
    resources = {
        ("", "secrets"), ("", "configmaps"), ("", "services"), ("apps", "deployments"),
        ("apps", "replicasets"), ("networking.k8s.io", "ingresses"), ("batch", "cronjobs"),
        ("batch", "jobs"), ("scheduling.k8s.io", "priorityclasses"),
    }  # fmt: skip
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "sharder-sharded-resources"},
        "rules": [
            {"apiGroups": [g], "resources": [r], "verbs": ["get", "list", "watch", "patch"]}
            for g, r in sorted(resources)
        ],
    }
    with ControlPlane() as plane:
        plane.apply(CRD)
        plane.apply(MANIFESTS / "sharder.yaml")
        plane.apply(json.dumps(role))
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
        yield plane


@pytest.fixture(scope="module")
def runs(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Mapping[Path, Run]:
    """Each configuration in turn, on rings that no sharder has seen yet."""
    certificates = tmp_path_factory.mktemp("certificates")
    names = [f"sharder-webhook.{SYSTEM}.svc"]
    identity = Authority("test").issue_server(names, IPv4Address("127.0.0.1"))
    (certificates / "server.crt").write_bytes(identity.certificate)
    (certificates / "server.key").write_bytes(identity.key)
    directory = {"SHARDER_WEBHOOK_SERVER_CERT_DIR": str(certificates)}
    return {
        SERVICE: asyncio.run(run(plane, SERVICE, **directory)),
        URL: asyncio.run(run(plane, URL)),
    }


async def run(plane: ControlPlane, config: Path, **variables: str) -> Run:
    """Run the sharder until all rings are ready.

    What the file says about this machine is overridden, as an operator may do: ports above all.
    """
    apply_rings(plane)
    variables |= {
        "SHARDER_HEALTH_BIND_ADDRESS": "0",
        "SHARDER_METRICS_BIND_ADDRESS": "0",
        "SHARDER_WEBHOOK_SERVER_BIND_ADDRESS": "127.0.0.1",
        "SHARDER_WEBHOOK_SERVER_PORT": "0",
        "SHARDER_GRACEFUL_SHUT_DOWN": "0s",
        "TMPDIR": str(plane.directory),
    }
    program = str(Path(sys.executable).parent / "sharder")
    kubeconfig = str(plane.token_kubeconfig(SYSTEM, "sharder"))
    command = [program, "run", "--config", str(config), "--kubeconfig", kubeconfig]
    plane.supervisor.run(config.stem, command, os.environ | variables)
    try:
        ready = await eventually(lambda: all_ready(plane), within=60)
    except AssertionError as error:
        raise AssertionError(plane.log_tail(config.stem)) from error
    webhooks = read(plane, "mutatingwebhookconfigurations", Configuration)
    await asyncio.to_thread(plane.supervisor.stop, config.stem)
    plane.kubectl("delete", "controllerrings,mutatingwebhookconfigurations", "--all")
    log = plane.supervisor.log(config.stem).read_text()
    return Run(ready=ready, webhooks=webhooks, log=log)


def apply_rings(plane: ControlPlane) -> list[str]:
    """Apply the rings as they are, and return what the API server calls them."""
    strict = ("apply", "--server-side", "--validate=strict", "-o", "name", "-f", str(RINGS))
    return plane.kubectl(*strict).split()


async def all_ready(plane: ControlPlane) -> dict[str, str]:
    ready = {
        name: next((c.status for c in ring.status.conditions if c.type == "Ready"), "unknown")
        for name, ring in read(plane, "controllerrings", Ring).items()
    }
    assert set(ready.values()) == {"True"}, ready
    return ready


def read(plane: ControlPlane, resource: str, of: type[T]) -> dict[str, T]:
    """Return all objects of a resource by name."""
    found = json.loads(plane.kubectl("get", resource, "-o", "json"))["items"]
    return {each.metadata.name: each for each in (msgspec.convert(item, of) for item in found)}


def test_the_api_server_takes_the_rings_as_they_are(plane: ControlPlane) -> None:
    applied = apply_rings(plane)

    assert {name.partition("/")[2] for name in applied} == NAMES


def test_the_api_server_keeps_every_field_of_the_rings(plane: ControlPlane) -> None:
    apply_rings(plane)

    kept = read(plane, "controllerrings", Ring)

    # More may be there: defaults, also of fields that are ours.
    lost = {n: {*fields_of(spec)} - {*fields_of(kept[n].spec)} for n, spec in ring_specs().items()}
    assert not any(lost.values()), lost


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_a_sharder_makes_all_rings_ready(runs: Mapping[Path, Run], file: Path) -> None:
    assert runs[file].ready == dict.fromkeys(NAMES, "True")


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_the_sharder_knows_every_field(runs: Mapping[Path, Run], file: Path) -> None:
    assert "unknown setting" not in runs[file].log


def test_fields_without_effect_are_named_once(runs: Mapping[Path, Run]) -> None:
    (line,) = (line for line in runs[SERVICE].log.splitlines() if "without effect" in line)

    assert "clientConnection.qps" in line
    assert "debugging.enableContentionProfiling" in line


def calls(configuration: Configuration) -> list[object]:
    """How the API server calls the webhooks, each way once, but for the token."""
    every = {json.dumps(each.client_config, sort_keys=True) for each in configuration.webhooks}
    return [json.loads(re.sub("/[0-9a-f]{32}/", "/<token>/", each)) for each in every]


def test_a_webhook_is_called_through_the_service_of_the_configuration(
    runs: Mapping[Path, Run],
) -> None:
    (call,) = calls(runs[SERVICE].webhooks["controllerring-jobs"])

    assert call == {
        "service": {
            "namespace": SYSTEM,
            "name": "sharder-webhook",
            "path": "/behind/a/gateway/<token>/webhooks/sharder/controllerring/jobs",
            "port": 8443,
        }
    }


def test_a_webhook_is_called_by_the_url_of_the_configuration(runs: Mapping[Path, Run]) -> None:
    (call,) = calls(runs[URL].webhooks["controllerring-jobs"])
    given = yaml.safe_load(URL.read_text())["webhook"]["config"]["clientConfig"]

    assert call == {
        "url": f"{given['url']}/<token>/webhooks/sharder/controllerring/jobs",
        "caBundle": "".join(given["caBundle"].split()),
    }


def test_a_webhook_has_the_annotations_of_the_configuration(runs: Mapping[Path, Run]) -> None:
    annotations = runs[SERVICE].webhooks["controllerring-web"].metadata.annotations or {}

    assert annotations["cert-manager.io/inject-ca-from"] == f"{SYSTEM}/webhook-server"


def test_a_ring_without_a_selector_has_that_of_the_configuration(
    runs: Mapping[Path, Run],
) -> None:
    webhooks = runs[SERVICE].webhooks["controllerring-jobs"].webhooks
    config = yaml.safe_load(SERVICE.read_text())["webhook"]["config"]

    for webhook in webhooks:
        assert webhook.namespace_selector == config["namespaceSelector"]


def test_a_selector_of_a_ring_replaces_that_of_the_configuration(
    runs: Mapping[Path, Run],
) -> None:
    spec = ring_specs()["web"]

    for webhook in runs[SERVICE].webhooks["controllerring-web"].webhooks:
        assert webhook.namespace_selector == spec["namespaceSelector"]
