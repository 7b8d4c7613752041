"""The chart as a release on a control plane of its own, and a sharder that runs from it.

The sharder is a process with the configuration of the release and a token of its ServiceAccount
that is bound to a Pod, for there is no kubelet.  The API server calls the Service of the release,
which leads nowhere: these tests only look at what is written.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from hack import binaries
from hack.control_plane import ControlPlane
from hack.playground import SYSTEM
from sharder.core.names import RING_LABEL, ObjectRef
from sharder.kube.client import connect
from sharder.kube.typed_stores import rings, secrets, webhook_configurations
from tests.chart.rendering import Helm
from tests.support.eventually import eventually
from tests.support.samples import total

CRD = "controllerrings.sharding.timebertt.dev"
SECRET = "sharder-certificates"  # noqa: S105 - a name

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

    async def helm3(self, *arguments: str, values: Mapping[str, object] | None = None) -> str:
        """Do the same with helm 3."""
        helm = replace(self._helm, program=await asyncio.to_thread(binaries.helm3))
        return await asyncio.to_thread(helm.run, *arguments, "-n", SYSTEM, values=values)

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
        client = await connect(str(self.plane.admin_kubeconfig))
        try:
            secret = await secrets(client, namespace=SYSTEM).get(ObjectRef(SYSTEM, SECRET))
            found = [ring.metadata async for ring in rings(client).stream()]
            configured = [each async for each in webhook_configurations(client).stream(RING_LABEL)]
        finally:
            await client.close()
        return Kept(
            rings={meta.name: (meta.uid, meta.generation) for meta in found},
            certificates=secret.data or {},
            ca_bundles={
                each.metadata.name: webhook.client_config.ca_bundle
                for each in configured
                for webhook in each.webhooks or ()
            },
        )

    async def fail_opens(self) -> float:
        """Return how many calls of webhooks the API server has passed over."""
        scrape = await self.kubectl("get", "--raw", "/metrics")
        return total(scrape, "apiserver_admission_webhook_fail_open_count")

    @property
    def _name(self) -> str:
        return f"sharder-{self._started}"

    async def _start(self) -> None:
        file = self.plane.directory / f"{self._name}.yaml"
        path = r"jsonpath={.data.config\.yaml}"
        config = yaml.safe_load(
            await self.kubectl("get", "cm", "sharder", "-n", SYSTEM, "-o", path)
        )
        # A pod has all ports for itself, and time.
        config |= {name: {"bindAddress": "0"} for name in ("health", "metrics", "console")}
        config["gracefulShutDown"] = "0s"
        config["webhook"]["server"] |= {"bindAddress": "127.0.0.1", "port": 0}
        file.write_text(yaml.safe_dump(config))
        token = await asyncio.to_thread(
            self.plane.token_kubeconfig, SYSTEM, "sharder", pod=self._name
        )
        program = str(Path(sys.executable).with_name("sharder"))
        command = [program, "run", "--config", str(file), "--kubeconfig", str(token)]
        variables = {
            "POD_NAME": self._name,
            "POD_NAMESPACE": SYSTEM,
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
