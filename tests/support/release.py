"""The chart as a release on a control plane of its own, and a sharder that runs from it.

The sharder is a process with the configuration of the release and a token of its ServiceAccount
that is bound to a Pod, for there is no kubelet.  The API server is told to call the Service of the
release, which leads nowhere: what counts here is what is written.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from hack import binaries
from hack.control_plane import ControlPlane
from hack.playground import SYSTEM
from sharder.names import RING_LABEL
from tests.chart.rendering import Helm
from tests.support.eventually import eventually

CRD = "controllerrings.sharding.timebertt.dev"
SECRET = "sharder-certificates"  # noqa: S105 - a name
_T = TypeVar("_T")

WITHIN = 60
"""Seconds in which a sharder starts, leads and has written everything, on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What users lose if helm does not leave it alone."""

    rings: Mapping[str, tuple[str, int]]
    """By name: uid and generation, which grows with every change of the spec."""
    certificates: Mapping[str, str]
    ca_bundles: Mapping[str, str]
    """By the name of the webhook configuration."""


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    uid: str
    generation: int = 0


class _Ring(msgspec.Struct, frozen=True):
    metadata: _Metadata


class _ClientConfig(msgspec.Struct, frozen=True, rename="camel"):
    ca_bundle: str


class _Webhook(msgspec.Struct, frozen=True, rename="camel"):
    client_config: _ClientConfig


class _Configuration(msgspec.Struct, frozen=True):
    metadata: _Metadata
    webhooks: list[_Webhook]


class _Secret(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}


class _Rings(msgspec.Struct, frozen=True):
    items: list[_Ring]


class _Configurations(msgspec.Struct, frozen=True):
    items: list[_Configuration]


class Release:
    """The release `sharder`, whichever chart it is of, and one sharder process at a time."""

    def __init__(self, plane: ControlPlane) -> None:
        """`plane` runs already, and ends the sharder with itself."""
        self.plane = plane
        self._helm = Helm(
            program=binaries.helm(),
            home=plane.directory / "helm",
            kubeconfig=plane.admin_kubeconfig,
        )
        self._started = 0

    async def helm(self, *arguments: str, values: Mapping[str, object] | None = None) -> str:
        """Run helm in the namespace of the release, and return what it prints."""
        command = (*arguments, "-n", SYSTEM)
        return await asyncio.to_thread(self._helm.run, *command, values=values)

    async def kubectl(self, *arguments: str) -> str:
        """Return what kubectl prints."""
        return await asyncio.to_thread(self.plane.kubectl, *arguments)

    async def replace_sharder(self) -> Kept:
        """Run a sharder as the release has it now, and return what is there when it leads."""
        self.stop_sharder()
        self._started += 1
        await self._start()
        await eventually(self._leads, within=WITHIN)
        return await eventually(self._complete, within=WITHIN)

    def stop_sharder(self) -> None:
        """End the one that runs, if there is one."""
        if self._started:
            self.plane.supervisor.stop(self._name)

    async def kept(self) -> Kept:
        """Return what is there now."""
        secret = await self._read(_Secret, "secret", SECRET, "-n", SYSTEM)
        rings = await self._read(_Rings, "controllerrings")
        found = await self._read(
            _Configurations, "mutatingwebhookconfigurations", "-l", RING_LABEL
        )
        return Kept(
            rings={
                each.metadata.name: (each.metadata.uid, each.metadata.generation)
                for each in rings.items
            },
            certificates=secret.data,
            ca_bundles={
                each.metadata.name: webhook.client_config.ca_bundle
                for each in found.items
                for webhook in each.webhooks
            },
        )

    async def fail_opens(self) -> float:
        """Return how many calls of webhooks the API server has passed over."""
        metrics = await self.kubectl("get", "--raw", "/metrics")
        name = "apiserver_admission_webhook_fail_open_count{"
        lines = [line for line in metrics.splitlines() if line.startswith(name)]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    @property
    def _name(self) -> str:
        return f"sharder-{self._started}"

    async def _start(self) -> None:
        file = self.plane.directory / f"{self._name}.yaml"
        path = r"jsonpath={.data.config\.yaml}"
        file.write_text(await self.kubectl("get", "cm", "sharder", "-n", SYSTEM, "-o", path))
        token = await asyncio.to_thread(
            self.plane.token_kubeconfig, SYSTEM, "sharder", pod=self._name
        )
        program = str(Path(sys.executable).with_name("sharder"))
        command = [program, "run", "--config", str(file), "--kubeconfig", str(token)]
        # A pod has all ports for itself, and time.
        variables = {
            "POD_NAME": self._name,
            "POD_NAMESPACE": SYSTEM,
            "SHARDER_GRACEFUL_SHUT_DOWN": "0s",
            "SHARDER_HEALTH_BIND_ADDRESS": "0",
            "SHARDER_METRICS_BIND_ADDRESS": "0",
            "SHARDER_WEBHOOK_SERVER_BIND_ADDRESS": "127.0.0.1",
            "SHARDER_WEBHOOK_SERVER_PORT": "0",
            "TMPDIR": str(self.plane.directory),
        }
        self.plane.supervisor.run(self._name, command, os.environ | variables)

    async def _leads(self) -> bool:
        code = self.plane.supervisor.exit_code(self._name)
        assert code is None, self.plane.log_tail(self._name)
        path = "jsonpath={.spec.holderIdentity}"
        holder = await self.kubectl("get", "lease", "sharder", "-n", SYSTEM, "-o", path)
        return holder.startswith(f"{self._name}_")

    async def _complete(self) -> Kept:
        kept = await self.kept()
        assert kept.certificates
        assert len(kept.ca_bundles) == len(kept.rings)
        return kept

    async def _read(self, kind: type[_T], *arguments: str) -> _T:
        text = await self.kubectl("get", *arguments, "-o", "json")
        return msgspec.json.decode(text, type=kind)
