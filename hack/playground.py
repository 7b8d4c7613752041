"""A running service: sharders and shards as processes on a real control plane.

The demo, the end-to-end tests and the benchmarks use it.  No process runs with the rights of
system:masters: sharders, shards and users have separate identities.  Leases last 5 s by default.
"""

import asyncio
import base64
import json
import os
import signal
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import yaml

from hack.control_plane import ControlPlane
from hack.objects import namespace
from hack.ports import free_ports
from sharder.core.api.ring import ControllerRing, StrategyName
from sharder.core.fence import fence_of
from sharder.core.names import ObjectRef

ROOT = Path(__file__).parent.parent
CRD = ROOT / "charts/sharder/templates/crd.yaml"
MANIFESTS = ROOT / "hack/manifests"
EXAMPLE = ROOT / "examples/checksum-controller"
SHARDER = (str(Path(sys.executable).parent / "sharder"), "run")
CONTROLLER = (sys.executable, str(EXAMPLE / "controller.py"))
RING = "checksum"
NAMESPACE = "demo"
SHARDS = "checksum-controller"
SYSTEM = "sharding-system"


class Playground:
    """A control plane with the CRD, the identities and one ring; starts sharders and shards."""

    def __init__(
        self,
        plane: ControlPlane,
        *,
        lease_seconds: int = 5,
        service_port: int | None = None,
        strategies: Path | None = None,
    ) -> None:
        """Describe a playground without installing it.

        Args:
            plane: A running control plane; its end stops the playground's processes too.
            lease_seconds: The Lease duration of shards; a later assignment is for later shards.
            service_port: The port of a test's stand-in for the Service of several sharders; by
                default the API server sends reviews to the sharder's own port.
            strategies: The folder of a package with placement strategies, for PYTHONPATH of the
                sharders.
        """
        self.plane = plane
        self.lease_seconds = lease_seconds
        self.sharder: Sequence[str] = SHARDER
        self._service_port = service_port
        self._strategies = strategies
        self._ports: dict[str, dict[str, int]] = {}
        self._kubeconfigs: dict[str, Path] = {}
        self._environments: dict[str, Mapping[str, str]] = {}
        self.scraper_token = ""
        """The token of an account that can read the metrics; empty before `install`."""
        self._trust: ssl.SSLContext | None = None

    def install(self) -> None:
        """Install the CRD, the identities and the example with its ring; idempotent."""
        self.plane.apply(CRD)
        self.plane.apply(MANIFESTS / "sharder.yaml")
        self.plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
        self.plane.apply(MANIFESTS / "viewer.yaml")
        self.plane.apply(MANIFESTS / "scraper.yaml")
        self.plane.apply([namespace(NAMESPACE, {"checksum.example.com/enabled": "true"})])
        for manifest in ("namespace.yaml", "rbac.yaml", "ring.yaml"):
            self.plane.apply(EXAMPLE / "deploy" / manifest)
        self._kubeconfigs = {
            "viewer": self.plane.kubeconfig("viewer"),
            "author": self.plane.kubeconfig("author"),
            # One pod for all replicas: only the account of the token has a meaning.
            "sharder": self.plane.token_kubeconfig(SYSTEM, "sharder", pod="sharder-0"),
            "shard": self.plane.token_kubeconfig(SHARDS, "checksum-controller"),
        }
        create = ("create", "token", "scraper", "--namespace", SYSTEM, "--duration=1h")
        self.scraper_token = self.plane.kubectl(*create).strip()

    def place_by(self, strategy: StrategyName) -> None:
        """Give the ring a strategy."""
        body = json.dumps({"spec": {"placement": {"strategy": strategy}}})
        self.plane.kubectl("patch", "controllerrings", RING, "--type=merge", f"--patch={body}")

    def fence(self) -> None:
        """Apply the fence: the API server rejects writes of a shard to objects of other shards."""
        shown = self.plane.kubectl("get", "controllerring", RING, "--output=json")
        ring = msgspec.json.decode(shown, type=ControllerRing)
        self.plane.apply(fence_of(ring, [ObjectRef(SHARDS, SHARDS)]))

    @property
    def viewer(self) -> Path:
        """The kubeconfig of a user who can read everything and change nothing."""
        return self._kubeconfigs["viewer"]

    @property
    def author(self) -> Path:
        """The kubeconfig of a user who can also write and delete Secrets and ConfigMaps."""
        return self._kubeconfigs["author"]

    def kubeconfig_of(self, identity: str) -> Path:
        """Return the kubeconfig of `sharder`, `shard`, `author`, `viewer` or an equipped name."""
        return self._kubeconfigs[identity]

    def equip(self, name: str, *, kubeconfig: Path, environment: Mapping[str, str]) -> None:
        """Set the kubeconfig and more variables for the next starts of a sharder or shard."""
        self._kubeconfigs[name] = kubeconfig
        self._environments[name] = environment

    def start_sharder(self, name: str = "sharder-0", **config: object) -> None:
        """Start a sharder; `config` replaces top-level fields of its SharderConfig."""
        webhook, health, metrics, console = free_ports(4)
        called = self._service_port or webhook
        settings = {
            "apiVersion": "config.sharding.timebertt.dev/v1alpha1",
            "kind": "SharderConfig",
            "health": {"bindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": f"127.0.0.1:{metrics}"},
            "console": {"bindAddress": f"127.0.0.1:{console}"},
            "webhook": {
                "server": {"bindAddress": "127.0.0.1", "port": webhook},
                "config": {"clientConfig": {"url": f"https://127.0.0.1:{called}"}},
            },
            "certificates": {"secretName": "sharder-certificates"},
            **config,
        }
        file = self.plane.directory / f"{name}.yaml"
        file.write_text(yaml.safe_dump(settings))
        command = [*self.sharder, "--config", str(file)]
        kubeconfig = str(self._kubeconfigs.get(name, self._kubeconfigs["sharder"]))
        variables = {"KUBECONFIG": kubeconfig, "POD_NAME": name, "POD_NAMESPACE": SYSTEM}
        if self._strategies is not None:
            before = os.environ.get("PYTHONPATH", "")
            variables["PYTHONPATH"] = os.pathsep.join(
                filter(None, (str(self._strategies), before))
            )
        self._run(name, command, variables)
        self._ports[name] = {
            "webhook": webhook, "health": health, "metrics": metrics, "console": console
        }  # fmt: skip

    def webhook_port(self, name: str) -> int:
        """Return the port of a sharder's webhook."""
        return self._ports[name]["webhook"]

    def ports(self, name: str) -> dict[str, int]:
        """Return all ports of a sharder: `webhook`, `health`, `metrics` and `console`."""
        return self._ports[name]

    def metrics_url(self, name: str) -> str:
        """Return the URL of a sharder's metrics, for a `config` without `metrics`."""
        return f"https://127.0.0.1:{self._ports[name]['metrics']}/metrics"

    def scrape(self, name: str = "sharder-0", *, path: str = "/metrics") -> str:
        """Return a sharder's metrics, or the text at another path of the same server."""
        headers = {"Authorization": f"Bearer {self.scraper_token}"}
        url = self.metrics_url(name).removesuffix("/metrics") + path
        request = urllib.request.Request(url, headers=headers)  # noqa: S310
        self._trust = self._trust or self.trust()
        try:
            return _read(request, self._trust)
        except urllib.error.URLError:
            # The sharder may have replaced its authorities.
            self._trust = self.trust()
            return _read(request, self._trust)

    def trust(self) -> ssl.SSLContext:
        """Return a context that trusts the authorities that are now in the sharder's Secret."""
        get = ("get", "secret", "sharder-certificates", "--namespace", SYSTEM)
        encoded = self.plane.kubectl(*get, "--output", r"jsonpath={.data.ca\.crt}")
        return ssl.create_default_context(cadata=base64.b64decode(encoded).decode())

    def is_ready(self, name: str = "sharder-0") -> bool:
        """Return whether the sharder reports ready.

        Raises:
            RuntimeError: Its process has ended; the message has the end of its log.
        """
        code = self.exit_code(name)
        if code is not None:
            raise RuntimeError(f"{name} ended with {code}{self.plane.log_tail(name)}")
        probe = f"http://127.0.0.1:{self._ports[name]['health']}/readyz"
        try:
            with urllib.request.urlopen(probe, timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def start_shard(
        self, name: str, command: Sequence[str] = CONTROLLER, **environment: str
    ) -> None:
        """Start `command`, by default the example's controller, as shard `name`."""
        seconds = self.lease_seconds
        variables = {
            "KUBECONFIG": str(self._kubeconfigs.get(name, self._kubeconfigs["shard"])),
            "SHARD_NAME": name,
            "SHARD_NAMESPACE": SHARDS,
            # A second start under the same name stands for a container restart in the same pod.
            "POD_UID": f"{name}-pod",
            "SHARD_LEASE_DURATION": str(seconds),
            "SHARD_RENEW_DEADLINE": str(seconds * 2 / 3),
            "SHARD_RETRY_PERIOD": str(seconds / 7.5),
            **environment,
        }
        self._run(name, list(command), variables)

    def _run(self, name: str, command: list[str], variables: dict[str, str]) -> None:
        # The control plane's end also removes the temporary files of killed processes.
        variables["TMPDIR"] = str(self.plane.directory)
        environment = {**os.environ, **variables, **self._environments.get(name, {})}
        self.plane.supervisor.run(name, command, environment)

    def pid(self, name: str) -> int:
        """Return the process id of the last process that was started under this name."""
        return self.plane.supervisor.pid_of(name)

    def exit_code(self, name: str) -> int | None:
        """Return None while a process runs, else its exit code."""
        return self.plane.supervisor.exit_code(name)

    def log(self, name: str) -> str:
        """Return all the output of a process."""
        return self.plane.supervisor.log(name).read_text(errors="replace")

    def pause(self, name: str) -> None:
        """Pause a process by SIGSTOP; its connections stay open."""
        self.plane.supervisor.send(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Resume a paused process."""
        self.plane.supervisor.send(name, signal.SIGCONT)

    def kill(self, name: str) -> None:
        """End a process by SIGKILL: it cannot release its Lease or clean up."""
        self.plane.supervisor.stop(name, signal.SIGKILL)

    def terminate(self, name: str) -> None:
        """Send SIGTERM and return at once; the process has no time limit."""
        self.plane.supervisor.send(name, signal.SIGTERM)

    def stop(self, name: str) -> int:
        """Send SIGTERM, after a grace period SIGKILL; wait and return the exit code."""
        return self.plane.supervisor.stop(name)


async def wait_until_ready(playground: Playground, name: str = "sharder-0") -> None:
    """Wait until the sharder reports ready.

    Raises:
        TimeoutError: It is not ready after a minute.
        RuntimeError: Its process has ended.
    """
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(playground.is_ready, name):  # noqa: ASYNC110 - a process
            await asyncio.sleep(0.1)


def _read(request: urllib.request.Request, trust: ssl.SSLContext) -> str:
    with urllib.request.urlopen(request, timeout=10, context=trust) as answer:  # noqa: S310
        content: bytes = answer.read()
        return content.decode()
