"""`sharder console`: open the leader's console in a browser, through kubectl.

A browser speaks HTTP to this process, on the loopback, and this process HTTPS to the leader's pod
through `kubectl port-forward`.  So no browser warns of the pod's certificate, which has other
names, and none gets a token of the cluster, but a key that is good for this process alone.
"""

import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Final

from typing_extensions import override

from sharder.config import Settings
from sharder.core.errors import ConfigError, SharderError

KUBECTL_SECONDS: Final = 30.0
"""Limit of one command of kubectl, and of the start of the forwarding."""

LOOK_SECONDS: Final = 5.0
"""Seconds between two looks at who leads."""

_KEPT: Final = ("content-type", "content-security-policy", "cache-control", "referrer-policy")
"""The headers that the page needs."""


@dataclass(slots=True, kw_only=True)
class Relay:
    """Relays requests of a browser to the leader."""

    namespace: str
    kubeconfig: str | None = None
    context: str | None = None
    key: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    """The browser's key; it stands for a token."""
    pod: str = ""
    """The leader's."""
    port: int = 0
    """Of the loopback, forwarded to the pod."""

    def find_leader(self) -> str:
        """Return the pod of the leader; a SharderError says why there is none."""
        lease = Settings().leader_election.resource_name
        holder = self.kubectl("get", "lease", lease, "-o", "jsonpath={.spec.holderIdentity}")
        if not holder:
            raise SharderError(f"no replica leads: run sharder check -n {self.namespace}")
        return holder.partition("_")[0]

    def new_token(self) -> str:
        """Return a token of the sharder's own account, which the leader accepts."""
        account = self.kubectl("get", "pod", self.pod, "-o", "jsonpath={.spec.serviceAccountName}")
        return self.kubectl("create", "token", account or "default", "--duration=10m")

    def kubectl(self, *words: str) -> str:
        """Return what a command prints; a SharderError has what it complains of."""
        what, command = f"kubectl {words[0]} {words[1]}", self._command(*words)
        try:
            return subprocess.check_output(  # noqa: S603 - no shell
                command, env=self._environment, stderr=subprocess.PIPE, timeout=KUBECTL_SECONDS
            ).decode().strip()  # fmt: skip
        except FileNotFoundError as error:
            raise ConfigError("the console needs kubectl: install it") from error
        except subprocess.CalledProcessError as error:
            raise SharderError(f"{what}: {error.stderr.decode().strip()}") from error
        except subprocess.TimeoutExpired as error:
            raise SharderError(f"{what}: no answer within {KUBECTL_SECONDS:.0f}s") from error

    @contextmanager
    def forwarding(self) -> Iterator[subprocess.Popen[bytes]]:
        """Forward `port` to the metrics of the leader's pod while the body runs."""
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port = int(free.getsockname()[1])
        child = subprocess.Popen(  # noqa: S603 - no shell
            self._command("port-forward", f"pod/{self.pod}", f"{self.port}:metrics"),
            env=self._environment,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C reaches this process alone
        )
        try:
            for _ in range(int(10 * KUBECTL_SECONDS)):
                if child.poll() is not None:
                    raise SharderError(f"kubectl cannot forward a port to pod/{self.pod}")
                with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
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


class _Server(ThreadingHTTPServer):
    """Serves the browser."""

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: the browser has left."""


class _Handler(BaseHTTPRequestHandler):
    """Relays one request."""

    def __init__(self, relay: Relay, *arguments: object) -> None:
        self._relay = relay
        super().__init__(*arguments)  # type: ignore[arg-type]  # those of socketserver

    def do_GET(self) -> None:
        given, relay = self.headers.get("Authorization", ""), self._relay
        try:
            if secrets.compare_digest(given.encode(), f"Bearer {relay.key}".encode()):
                given = f"Bearer {relay.new_token()}"
            self._relay_request(given)
        except SharderError as error:
            self._refuse(401, str(error))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the browser has left
        except (HTTPException, OSError) as error:
            self._refuse(502, f"no answer of {relay.pod}: {error}")

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def _relay_request(self, authorization: str) -> None:
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # The API server and kubectl have found the pod; its certificate has other names.
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        with closing(HTTPSConnection("127.0.0.1", self._relay.port, context=trust)) as leader:
            leader.request("GET", self.path, headers={"Authorization": authorization})
            answer = leader.getresponse()
            self._begin(answer.status, {n: v for n in _KEPT if (v := answer.headers.get(n))})
            while piece := answer.read1(65536):
                self.wfile.write(piece)

    def _refuse(self, status: int, why: str) -> None:
        self._begin(status, {"content-type": "application/json"})
        self.wfile.write(json.dumps({"detail": why}).encode())

    def _begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def run(relay: Relay, *, port: int, browse: bool) -> None:
    """Serve the leader's console on a local port, 0 for any, until Ctrl-C or SIGTERM.

    Raises:
        SharderError: there is no leader, or it cannot be reached.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    is_open = False
    with suppress(KeyboardInterrupt):
        while True:
            try:
                relay.pod = relay.find_leader()
                with relay.forwarding() as child:
                    is_open = is_open or _open(relay, port, browse=browse)
                    while child.poll() is None and relay.find_leader() == relay.pod:
                        time.sleep(LOOK_SECONDS)
            except SharderError as error:
                if not is_open:
                    raise
                print(f"{error}; trying again", file=sys.stderr)
                time.sleep(LOOK_SECONDS)


def _open(relay: Relay, port: int, *, browse: bool) -> bool:
    """Serve, say where, and return True."""
    try:
        server = _Server(("127.0.0.1", port), partial(_Handler, relay))
    except OSError as error:
        raise ConfigError(f"cannot listen on port {port}: {error.strerror}") from error
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/console"
    try:
        relay.new_token()
        address += f"#token={relay.key}"
    except SharderError as error:
        print(f"{error}\nThe page asks for a token of an account that can read the metrics.")
    print(f"Console of {relay.pod}: {address}\nCtrl-C ends it.", flush=True)
    if browse:
        webbrowser.open(address)
    return True
