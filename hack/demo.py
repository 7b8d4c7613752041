"""A demo: the sharder assigns objects to shards on a real API server.

    make demo                        the whole story; removes everything at the end
    make demo STRATEGY=Spread        the same with another placement strategy
    KEEP=1 make demo                 leaves the cluster running; `make demo-stop` ends it

Every step is checked on the API server: each Secret must have exactly one live owner, which the
ring's strategy chose, and its checksums must have the same owner.
"""

import argparse
import asyncio
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import yaml

from hack.audit_log import POLICY, audit_flags
from hack.binaries import BinariesError, control_plane
from hack.control_plane import ControlPlane
from hack.demo_steps import LEASE_SECONDS, Story, console, headline
from hack.kubectl import KubectlError
from hack.ownership import observing
from hack.playground import NAMESPACE, RING, ROOT, SHARDS, Playground
from hack.ports import free_ports
from hack.supervisor import ProcessError, stop_detached
from sharder.core.api.ring import ControllerRing, StrategyName
from sharder.core.errors import ConfigError, SharderError
from sharder.core.fence.policy import fence_of
from sharder.core.names import ObjectRef
from sharder.core.preview.what_if import strategy_named


def directory_of(checkout: Path) -> Path:
    """Return the directory of the demo of a checkout; the demos of two checkouts can run at once.

    The directory is below the one for temporary files, because the path of a socket must be short.
    """
    digest = hashlib.sha256(os.fsencode(checkout.resolve())).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"sharder-demo-{os.getuid()}-{digest}"


DIRECTORY = directory_of(ROOT)
AUDIT_LOG = "audit.log"


async def run_story(playground: Playground, strategy: StrategyName, port: int) -> None:
    """Run the whole story on an installed playground, with a ring of this strategy.

    `port` is for the sharder's console.

    Raises:
        SystemExit: A check failed; the message says which.
    """
    playground.start_sharder(gracefulShutDown="0s", console={"bindAddress": f"127.0.0.1:{port}"})
    with console.status("waiting for the sharder"):
        await wait_until_ready(playground)
    console.print(f"  Watch it in a browser: {console_url(port)}", soft_wrap=True)
    async with observing(playground.author, strategy) as (observer, client):
        story = Story(playground, observer, client, strategy, DIRECTORY / AUDIT_LOG)
        names = [f"shard-{number}" for number in range(4)]
        await story.start_shards(*names, careless="shard-0")
        await story.create()
        async with story.users():
            await story.join("shard-4")
            await story.kill("shard-1")
            await story.pause("shard-0")
            await story.leave("shard-4")
        console.print()
        console.print(story.times)
        console.print(story.conclude())


def console_url(port: int) -> str:
    """Return the URL of the console for a browser."""
    return f"http://127.0.0.1:{port}/console"


async def wait_until_ready(
    playground: Playground, name: str = "sharder-0", *, within: float = 60
) -> None:
    """Wait until the sharder reports ready.

    Raises:
        TimeoutError: It is not ready after `within` seconds.
        RuntimeError: Its process has ended.
    """
    async with asyncio.timeout(within):
        while not await asyncio.to_thread(playground.is_ready, name):  # noqa: ASYNC110 - a process
            await asyncio.sleep(0.1)


def strategy_of(text: str) -> StrategyName:
    """Return the strategy with this name; BoundedLoad, with even shares, for an empty name.

    Raises:
        ConfigError: The strategy is unknown, or is Custom.
    """
    strategy = strategy_named(text or StrategyName.BOUNDED_LOAD)
    if strategy is StrategyName.CUSTOM:
        raise ConfigError("STRATEGY=Custom needs a function that the demo has not got")
    return strategy


def play(strategy: StrategyName, *, keep: bool) -> None:
    """End a demo that still runs, and run a new one; with `keep`, leave the cluster running."""
    if stop_detached(DIRECTORY):
        console.print("ended the demo that was still running")
    headline("Start a control plane: etcd and kube-apiserver on the loopback")
    began = time.monotonic()
    flags = audit_flags(POLICY, DIRECTORY / AUDIT_LOG)
    with ControlPlane(directory=DIRECTORY, apiserver_flags=flags) as plane:
        playground = Playground(plane, lease_seconds=LEASE_SECONDS)
        playground.install()
        _fence(plane)
        place_by(strategy, plane)
        console.print(f"  [green]ok[/green] {plane.url} ({time.monotonic() - began:.1f} s)")
        (port,) = free_ports(1)
        asyncio.run(run_story(playground, strategy, port))
        if keep:
            plane.supervisor.detach()
            console.print(
                f"\nIt goes on running. Look at it in a browser: {console_url(port)}\n"
                "or on the command line:\n"
                f"  export KUBECONFIG={playground.viewer}\n"
                f"  {control_plane() / 'kubectl'} get controllerrings\n"
                f"  .venv/bin/sharder shards {RING}\n"
                f"  .venv/bin/sharder explain {RING} secrets {NAMESPACE}/secret-000\n"
                "Steer it, which needs more rights:\n"
                f"  export KUBECONFIG={plane.admin_kubeconfig}\n"
                f"  .venv/bin/sharder evacuate {RING} shard-2 --wait\n"
                "End it:\n  make demo-stop",
                soft_wrap=True,
            )
    if not keep:
        console.print(
            "\nEverything is stopped and removed; KEEP=1 make demo leaves it running, and says "
            f"how to point kubectl at it.\nKept for the next time: {control_plane()}",
            soft_wrap=True,
        )


def _fence(plane: ControlPlane) -> None:
    """Apply the fence: the API server rejects writes of a shard to objects of other shards."""
    shown = plane.kubectl("get", "controllerring", RING, "--output=json")
    ring = msgspec.json.decode(shown, type=ControllerRing)
    plane.apply(yaml.safe_dump_all(fence_of(ring, [ObjectRef(SHARDS, SHARDS)])))


def place_by(strategy: StrategyName, plane: ControlPlane) -> None:
    """Give the ring a strategy."""
    patch = {"spec": {"placement": {"strategy": strategy}}}
    plane.kubectl("patch", "controllerrings", RING, "--type=merge", f"--patch={json.dumps(patch)}")


def main() -> int:
    """Run or stop the demo; return 0 if every check passed."""
    parser = argparse.ArgumentParser(prog="python -m hack.demo", description=__doc__)
    parser.add_argument("--stop", action="store_true", help="end what KEEP=1 left running")
    if parser.parse_args().stop:
        ended = stop_detached(DIRECTORY)
        console.print("stopped" if ended else "no demo is running")
        return 0
    try:
        strategy = strategy_of(os.environ.get("STRATEGY", ""))
        play(strategy, keep=bool(os.environ.get("KEEP")))
    except (BinariesError, ProcessError, KubectlError, SharderError, TimeoutError) as problem:
        print(f"demo failed: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; everything is stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
