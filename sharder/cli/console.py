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
from functools import partial
from typing import Final

from sharder.cli.cluster import Cluster
from sharder.cli.command import Call
from sharder.config.settings import Settings
from sharder.core.errors import ConfigError, NotFound, SharderError
from sharder.core.names import ObjectRef
from sharder.kube.typed_stores import leases

START_SECONDS: Final = 30.0
"""Limit of the start of the forwarding."""

POLL_SECONDS: Final = 5.0
"""Seconds between two checks of who leads."""


def run(call: Call, *, namespace: str, port: int, browse: bool) -> None:
    """Forward a local port, 0 for any, to the leader's console until Ctrl-C or SIGTERM.

    `namespace` is that of the sharder.

    Raises:
        SharderError: there is no leader, it cannot be reached, or the port is not free.
    """
    port, is_open = _free_port(port), False
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    find = partial(call.read, partial(_leader, namespace=namespace))
    with suppress(KeyboardInterrupt):
        while True:
            try:
                leader = find()
                with _forwarding(call, namespace, leader, port) as child:
                    if not is_open:
                        _open(leader, port, browse=browse)
                    is_open = True
                    while child.poll() is None and find() == leader:
                        time.sleep(POLL_SECONDS)
            except SharderError as error:
                if not is_open:
                    raise
                print(f"{error}; trying again", file=sys.stderr)
                time.sleep(POLL_SECONDS)


async def _leader(cluster: Cluster, *, namespace: str) -> str:
    """Return the pod of the leader; a SharderError says why there is none."""
    ref = ObjectRef(namespace, Settings().leader_election.resource_name)
    with suppress(NotFound):
        lease = await leases(cluster.client, namespace=namespace).get(ref)
        if lease.spec.holder_identity:
            return lease.spec.holder_identity.partition("_")[0]
    raise SharderError(f"no replica leads: run sharder check -n {namespace}")


@contextmanager
def _forwarding(
    call: Call, namespace: str, pod: str, port: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Forward a local port to the console of a pod while the body runs."""
    context = [] if call.context is None else ["--context", call.context]
    # Not a flag: a kubeconfig can be several files.
    kubeconfig = {"KUBECONFIG": call.kubeconfig} if call.kubeconfig else {}
    words = ["kubectl", "port-forward", f"pod/{pod}", f"{port}:console", "--namespace", namespace]
    try:
        child = subprocess.Popen(  # noqa: S603 - no shell
            [*words, *context],
            env={**os.environ, **kubeconfig},
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # so that Ctrl-C reaches this process alone
        )
    except FileNotFoundError as error:
        raise ConfigError("the console needs kubectl: install it") from error
    try:
        for _ in range(int(10 * START_SECONDS)):
            if child.poll() is not None:
                raise SharderError(f"kubectl cannot forward a port to pod/{pod}")
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield child
    finally:
        child.terminate()
        child.wait()


def _open(leader: str, port: int, *, browse: bool) -> None:
    address = f"http://127.0.0.1:{port}/console"
    print(f"Console of {leader}: {address}\nCtrl-C ends it.", flush=True)
    if browse:
        webbrowser.open(address)


def _free_port(port: int) -> int:
    """Return the port if it is free, or any free one for 0."""
    try:
        with closing(socket.create_server(("127.0.0.1", port))) as free:
            return int(free.getsockname()[1])
    except (OSError, OverflowError) as error:
        raise ConfigError(f"cannot listen on port {port}: {error}; give another --port") from error
