"""Run helm on the chart, and read what it renders as values."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec
import yaml

CHART = Path(__file__).parents[2] / "charts" / "sharder"
CRD = CHART / "templates" / "crd.yaml"
SCHEMA = CHART / "values.schema.json"
REQUIRED: Mapping[str, object] = {"image": {"repository": "sharder"}}
"""The values without which helm refuses the chart."""


class HelmError(Exception):
    """helm failed; the message is what it said."""


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """Of a rendered object; `namespace` is empty for cluster-scoped ones."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class Rule(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A rule of a Role or ClusterRole."""

    verbs: tuple[str, ...]
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(name="nonResourceURLs", default=())


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a binding is about."""

    kind: str
    name: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A rendered object, with those of its fields that the tests look at."""

    api_version: str
    kind: str
    metadata: Metadata
    data: Mapping[str, str] = {}
    type: str = ""
    automount_service_account_token: bool = True
    rules: tuple[Rule, ...] = ()
    role_ref: Subject | None = None
    subjects: tuple[Subject, ...] = ()
    spec: Mapping[str, object] = {}


class Port(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A port of a container."""

    name: str
    container_port: int
    protocol: str


class Mount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a container sees a volume."""

    name: str
    mount_path: str
    read_only: bool = False


class Get(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe asks for."""

    path: str
    port: str


class Probe(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How the kubelet looks after a container."""

    http_get: Get
    period_seconds: int
    timeout_seconds: int
    failure_threshold: int
    initial_delay_seconds: int = 0


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """What a container gets."""

    requests: Mapping[str, str] = {}
    limits: Mapping[str, str] = {}


class Container(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The container of the sharder, with every field that the chart has."""

    name: str
    image: str
    image_pull_policy: str
    args: tuple[str, ...]
    env: tuple[Mapping[str, object], ...]
    ports: tuple[Port, ...]
    liveness_probe: Probe
    readiness_probe: Probe
    resources: Resources
    security_context: Mapping[str, object]
    volume_mounts: tuple[Mount, ...]


class Volume(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A volume; one of the kinds is set."""

    name: str
    config_map: Mapping[str, str] | None = None
    secret: Mapping[str, str] | None = None
    empty_dir: Mapping[str, str] | None = None
    host_path: Mapping[str, str] | None = None


class PodSpec(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The spec of the Deployment's pods, with every field that the chart has."""

    service_account_name: str
    automount_service_account_token: bool
    enable_service_links: bool
    termination_grace_period_seconds: int
    security_context: Mapping[str, object]
    containers: tuple[Container]
    volumes: tuple[Volume, ...]
    host_network: bool = False
    dns_policy: str = ""
    priority_class_name: str = ""
    image_pull_secrets: tuple[Mapping[str, str], ...] = ()
    node_selector: Mapping[str, str] = {}
    tolerations: tuple[Mapping[str, str], ...] = ()
    affinity: Mapping[str, object] = {}
    topology_spread_constraints: tuple[Mapping[str, object], ...] | None = None


class PodMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of the Deployment's pods."""

    labels: Mapping[str, str]
    annotations: Mapping[str, str]


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod as the Deployment makes it."""

    metadata: PodMetadata
    spec: PodSpec

    @property
    def container(self) -> Container:
        """The only one."""
        return self.spec.containers[0]

    @property
    def ports(self) -> Mapping[str, int]:
        """The ports of the container by name."""
        return {port.name: port.container_port for port in self.container.ports}

    @property
    def mounted(self) -> Mapping[str, Volume]:
        """The volumes by the directory in which the container sees them."""
        volumes = {each.name: each for each in self.spec.volumes}
        return {mount.mount_path: volumes[mount.name] for mount in self.container.volume_mounts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Helm:
    """helm with a home of its own; without a kubeconfig it reaches no cluster."""

    program: Path
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str, values: Mapping[str, object] | None = None) -> str:
        """Return what helm prints; `values` go before the defaults of the chart.

        Raises:
            HelmError: It ended with another code than 0.
        """
        environment = {
            **os.environ,
            "HELM_CACHE_HOME": str(self.home / "cache"),
            "HELM_CONFIG_HOME": str(self.home / "config"),
            "HELM_DATA_HOME": str(self.home / "data"),
            "KUBECONFIG": str(self.kubeconfig or os.devnull),
        }
        command = [str(self.program), *arguments]
        if values is not None:
            command += ["--values", "-"]
        done = subprocess.run(
            command,
            env=environment,
            input=json.dumps(values),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise HelmError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def template(
        self,
        values: Mapping[str, object] | None = None,
        *,
        release: str = "sharder",
        namespace: str = "sharding-system",
    ) -> str:
        """Return the rendered chart as a stream of YAML documents."""
        given = {**REQUIRED, **(values or {})}
        return self.run("template", release, str(CHART), "-n", namespace, values=given)


@lru_cache(maxsize=8)
def decode_manifests(rendered: str) -> tuple[Manifest, ...]:
    """Return the objects of a YAML stream in its order; empty documents are left out."""
    stream = yaml.load_all(rendered, Loader=yaml.CSafeLoader)
    return msgspec.convert([each for each in stream if each is not None], tuple[Manifest, ...])


def pod_of(rendered: str, name: str = "sharder") -> Pod:
    """Return what the Deployment of this name makes."""
    return msgspec.convert(find(rendered, "Deployment", name).spec["template"], Pod)


def find(rendered: str, kind: str, name: str) -> Manifest:
    """Return the one object of a YAML stream with this kind and name."""
    [found] = [
        each
        for each in decode_manifests(rendered)
        if (each.kind, each.metadata.name) == (kind, name)
    ]
    return found
