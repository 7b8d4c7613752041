"""A shard that does what a story says."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from typing_extensions import override

from sharder.core.api.lease import format_time
from sharder.core.api.meta import Json
from sharder.core.errors import Unavailable
from sharder.core.names import GroupResource
from sharder.sdk.testing.requests import Client as User
from tests.stage.actors import POD_NAME, SHARD_ACCOUNT, Actor
from tests.stage.stage import WEBSITES

if TYPE_CHECKING:
    from tests.replica.world import World

RESOURCES: Final = (WEBSITES.id, GroupResource("", "secrets"))
"""The main resources of the ring."""


class Written(NamedTuple):
    """A write of the sharder to an object."""

    name: str
    owner: str
    """With `*` while the object is draining."""
    next: str


class Puppet(Actor):
    """A shard that renews its Lease, and acknowledges drains if it is told to."""

    def __init__(self, world: "World", name: str, seconds: int) -> None:
        super().__init__(world, name, User(username=SHARD_ACCOUNT, extra={POD_NAME: (name,)}))
        self.world = world
        self.seconds = seconds
        self.renews = True
        self.acknowledges = True

    @override
    async def main(self) -> None:
        """Take the Lease, then renew it and acknowledge for ever."""
        await self.renew(acquireTime=format_time(self.clock.now()))
        while True:
            for _ in range(8):
                await asyncio.sleep(0.2)
                if self.acknowledges:
                    await self.acknowledge_all()
            with suppress(Unavailable):
                if self.renews:
                    await self.renew()

    async def renew(self, **spec: Json) -> None:
        """Hold the Lease from now on, as a shard that was away for a while too."""
        now: Json = format_time(self.clock.now())
        held: dict[str, Json] = {
            "holderIdentity": self.name,
            "leaseDurationSeconds": self.seconds,
            "renewTime": now,
            **spec,
        }
        await self.world.put_lease(self.name, held, client=self)

    async def release(self) -> None:
        """Give the Lease back and end."""
        self.kill()
        await self.world.put_lease(self.name, {"holderIdentity": ""})

    async def acknowledge_all(self) -> None:
        """Acknowledge each drain of an own object."""
        for resource in RESOURCES:
            for name, owner in self.world.owners(resource).items():
                if owner == f"{self.name}*":
                    await self.world.acknowledge(name, resource)
