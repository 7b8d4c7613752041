"""`sharder console`: open the leader's console in a browser, through `kubectl port-forward`."""

import os
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from sharder.config.settings import Settings
from sharder.core.errors import ConfigError, SharderError

KUBECTL_SECONDS: Final = 30.0
"""Limit of one command of kubectl, and of the start of the forwarding."""

POLL_SECONDS: Final = 5.0
"""Seconds between two checks of who leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """Runs kubectl on the namespace of the sharder."""

    namespace: str
    kubeconfig: str | None = None
    context: str | None = None

    def find_leader(self) -> str:
        """Return the pod of the leader; a SharderError says why there is none."""
        lease = Settings().leader_election.resource_name
        command = self._command("get", "lease", lease, "-o", "jsonpath={.spec.holderIdentity}")
        try:
            holder = subprocess.check_output(  # noqa: S603 - no shell
                command, env=self._environment, stderr=subprocess.PIPE, timeout=KUBECTL_SECONDS
            ).decode()
        except FileNotFoundError as error:
            raise ConfigError("the console needs kubectl: install it") from error
        except subprocess.CalledProcessError as error:
            raise SharderError(f"kubectl get lease: {error.stderr.decode().strip()}") from error
        except subprocess.TimeoutExpired as error:
            seconds = f"{KUBECTL_SECONDS:.0f}s"
            raise SharderError(f"kubectl get lease: no answer within {seconds}") from error
        if not holder:
            raise SharderError(f"no replica leads: run sharder check -n {self.namespace}")
        return holder.partition("_")[0]

    @contextmanager
    def forwarding(self, pod: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
        """Forward a local port to the console of a pod while the body runs."""
        child = subprocess.Popen(  # noqa: S603 - no shell
            self._command("port-forward", f"pod/{pod}", f"{port}:console"),
            env=self._environment,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C reaches this process alone
        )
        try:
            for _ in range(int(10 * KUBECTL_SECONDS)):
                if child.poll() is not None:
                    raise SharderError(f"kubectl cannot forward a port to pod/{pod}")
                with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
                time.sleep(0.1)
            yield child
        finally:
            child.terminate()
            child.wait()

    def _command(self, *words: str) -> list[str]:
        context = [] if self.context is None else ["--context", self.context]
        return ["kubectl", *words, "--namespace", self.namespace, *context]

    @property
    def _environment(self) -> dict[str, str]:
        # Not a flag: a kubeconfig can be several files.
        return {**os.environ, **({"KUBECONFIG": self.kubeconfig} if self.kubeconfig else {})}


def run(kubectl: Kubectl, *, port: int, browse: bool) -> None:
    """Forward a local port, 0 for any, to the leader's console until Ctrl-C or SIGTERM.

    Raises:
        SharderError: there is no leader, or it cannot be reached.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    port, is_open = port or _free_port(), False
    with suppress(KeyboardInterrupt):
        while True:
            try:
                leader = kubectl.find_leader()
                with kubectl.forwarding(leader, port) as child:
                    if not is_open:
                        _open(leader, port, browse=browse)
                    is_open = True
                    while child.poll() is None and kubectl.find_leader() == leader:
                        time.sleep(POLL_SECONDS)
            except SharderError as error:
                if not is_open:
                    raise
                print(f"{error}; trying again", file=sys.stderr)
                time.sleep(POLL_SECONDS)


def _open(leader: str, port: int, *, browse: bool) -> None:
    address = f"http://127.0.0.1:{port}/console"
    print(f"Console of {leader}: {address}\nCtrl-C ends it.", flush=True)
    if browse:
        webbrowser.open(address)


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        return int(free.getsockname()[1])
