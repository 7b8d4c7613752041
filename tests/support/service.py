"""A sharder that runs on a real control plane, and everybody who has to do with it.

The sharder is a process with the chart's rights.  Shards are Leases for an hour and nothing else:
no process works or acknowledges, until a test does.  Each test has a ring and namespaces of its
own, so that one service serves a whole session.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from hack.control_plane import ControlPlane
from hack.playground import Playground, wait_until_ready
from sharder.core.api.meta import Json, Resource
from sharder.kube.client import connect
from sharder.metrics.registry import PREFIX
from tests.support.samples import total
from tests.support.scene import Scene
from tests.support.users import User

ACCOUNT: Final = "worker"
"""The ServiceAccount in `controllers` and in `tenants`."""

STRATEGIES: Final = Path(__file__).with_name("custom_strategy")
"""What is installed beside the sharder."""


class Service:
    """The control plane and its sharder."""

    def __init__(self, plane: ControlPlane) -> None:
        """`plane` runs already, and ends the sharder with itself."""
        self.plane = plane
        self.playground = Playground(plane, strategies=STRATEGIES)
        self.admin = plane.admin_kubeconfig

    def start(self, **config: object) -> None:
        """Install everything and start the sharder; `until_ready` waits for it.

        `config` is merged over the top level of its SharderConfig.
        """
        self.playground.install()
        self.plane.apply(Path(__file__).with_name("service.yaml"))
        self.plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
        self.playground.start_sharder("sharder-0", gracefulShutDown="0s", **config)
        self.author = self.plane.kubeconfig("alice", "authors")

    async def until_ready(self) -> None:
        """Wait until the sharder calls itself ready."""
        await wait_until_ready(self.playground)

    async def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the samples that have these labels, 0 if there are none."""
        scrape = await asyncio.to_thread(self.playground.scrape)
        return total(scrape, PREFIX + name, **labels)

    async def metrics(self) -> list[str]:
        """Return the lines that a scrape gets."""
        return (await asyncio.to_thread(self.playground.scrape)).splitlines()

    @asynccontextmanager
    async def as_pod(self, name: str, namespace: str) -> AsyncIterator[User]:
        """Create a Pod that no kubelet runs, and act with the token that it would have."""
        make = self.plane.token_kubeconfig
        async with self.user(await asyncio.to_thread(make, namespace, ACCOUNT, pod=name)) as user:
            yield user

    @asynccontextmanager
    async def user(self, kubeconfig: Path | None = None) -> AsyncIterator[User]:
        """Connect as a user; by default as one who may write all objects."""
        client = await connect(str(kubeconfig or self.author))
        try:
            yield User(client)
        finally:
            await client.close()

    @asynccontextmanager
    async def scene(
        self,
        *main: Resource,
        controlled: Iterable[Resource] = (),
        shards: str = "abc",
        **spec: Json,
    ) -> AsyncIterator[Scene]:
        """Set up a ring over a namespace of its own, and delete the ring in the end.

        Args:
            main: Resources of the ring.
            controlled: What objects of each of them control.
            shards: One letter for each shard that is there from the start.
            spec: More fields of the ring; they win.
        """
        async with self.user(self.admin) as admin, self.user() as author:
            scene = Scene(admin, author)
            await scene.open_namespace(scene.namespace, ring=scene.ring)
            for letter in shards:
                await scene.join(letter)
            try:
                await scene.create_ring(main, controlled, spec)
                if shards and "placement" in spec:
                    await scene.until_placing(main[0])
                elif shards:
                    await scene.until_admitting(main[0])
                yield scene
            finally:
                await scene.clean_up()
