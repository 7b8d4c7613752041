"""Run helm on the chart, and read what it renders as values."""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec
import yaml

CHART = Path(__file__).parents[2] / "charts" / "sharder"
CRD = CHART / "templates" / "crd.yaml"
SCHEMA = CHART / "values.schema.json"


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
    rules: tuple[Rule, ...] = ()
    role_ref: Subject | None = None
    subjects: tuple[Subject, ...] = ()
    spec: Mapping[str, object] = {}


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
        return self.run("template", release, str(CHART), "-n", namespace, values=values or {})


def decode_manifests(rendered: str) -> tuple[Manifest, ...]:
    """Return the objects of a YAML stream in its order; empty documents are left out."""
    documents = [each for each in yaml.safe_load_all(rendered) if each is not None]
    return msgspec.convert(documents, tuple[Manifest, ...])


def find(rendered: str, kind: str, name: str) -> Manifest:
    """Return the one object of a YAML stream with this kind and name."""
    [found] = [
        each
        for each in decode_manifests(rendered)
        if (each.kind, each.metadata.name) == (kind, name)
    ]
    return found
