"""However labels, owners and watches change, only selected objects are registered, and all are.

The controller registers each selected object in another system, and cleans up in `on_delete`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import cycle
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from sharder.core.api.meta import Json
from sharder.core.errors import ApiError, Unavailable
from sharder.core.names import ObjectRef
from sharder.sdk import OwnMeta, Request, Shard
from sharder.shard.objects import OwnObject
from tests.unit.sdk.scene import (
    DRAIN,
    ME,
    OTHER,
    OWNER,
    WIDGETS,
    Controller,
    Scene,
    at_work,
)

ON, FINALIZER = "example.com/on", "example.com/registered"
ONE = ObjectRef("default", "one")
LABELS: Final[Mapping[str, Mapping[str, str | None]]] = {
    "select": {ON: "yes"},
    "deselect": {ON: None},
    "drain": {DRAIN: "true"},
    "touch": {"example.com/note": "again"},
}
OBJECT = [*LABELS, "create", "delete", "assign"]
CLUSTER = ["restart", "hold", "flow", "relist", "fail", "lose", "trouble", "wait"]
OFTEN = ["select", "deselect"] * 4
"""Most of what this test is about takes several of them in a row."""
STEPS = st.lists(st.sampled_from([*OFTEN, *OBJECT, *CLUSTER]), min_size=4, max_size=20)


def is_on(meta: OwnMeta) -> bool:
    return meta.label(ON) == "yes"


def never(_old: OwnMeta, _new: OwnMeta) -> bool:
    return False


class Stage:
    """One object that comes and goes, two shards, and the system in which it is registered."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.widgets = self.scene.cluster.widgets
        self.registry = set[str]()
        self.owners = cycle([ME, OTHER])
        self.is_troubled = False
        self._running = AsyncExitStack()

    async def register(self, request: Request) -> None:
        request.check()
        self.registry.add(request.metadata.uid)

    async def clean_up(self, request: Request) -> None:
        if self.is_troubled:
            self.is_troubled = False
            raise Unavailable("the other system does not answer")
        request.check()
        self.registry.discard(request.metadata.uid)

    def _add(self, shard: Shard) -> None:
        shard.reconciler(
            "widgets.example.com",
            self.register,
            selects=is_on,
            on_delete=self.clean_up,
            finalizer=FINALIZER,
            when=never,
        )

    async def start(self) -> None:
        for name in (ME, OTHER):
            working = at_work(self.scene, Controller(), more=self._add, name=name)
            await self._running.enter_async_context(working)

    async def end(self) -> None:
        await self._running.aclose()

    async def play(self, step: str) -> None:
        """Do one thing that a cluster does; requests of the test can fail too."""
        if step in OBJECT:
            await self._change(step)
        else:
            await self._disturb(step)
        await self.scene.clock.advance(0)

    async def _change(self, step: str) -> None:
        meta = self.seen()
        if meta is None:
            await self._create()
        elif step == "delete":
            await self.widgets.delete(ONE, uid=meta.uid, resource_version=meta.resource_version)
        elif step == "assign" and not meta.label(OWNER):
            await self._label({OWNER: next(self.owners)})
        elif step in LABELS:
            await self._label(LABELS[step])

    async def _disturb(self, step: str) -> None:
        match step:
            case "restart":
                await self.end()
                await self.start()
            case "hold":
                self.scene.hold_up_watches()
            case "flow":
                await self.scene.let_watches_flow()
            case "relist":
                self.widgets.compact()
                self.widgets.hang_up()
            case "fail":
                self.widgets.fail(Unavailable("timed out"))
            case "lose":
                self.widgets.lose(Unavailable("timed out"))
            case "trouble":
                self.is_troubled = True
            case _:
                await self.scene.clock.advance(12)

    async def settle(self) -> None:
        """End all trouble, and let the shards do their work."""
        self.widgets.recover()
        await self.scene.let_watches_flow()
        for _ in range(3):
            await self.scene.clock.advance(400)
            await self.play("assign")
        await self.scene.clock.advance(400)

    async def _create(self) -> None:
        metadata: Json = {"name": ONE.name, "labels": {OWNER: next(self.owners)}}
        await self.widgets.create(ONE.namespace, {"metadata": metadata})

    async def _label(self, labels: Mapping[str, str | None]) -> None:
        await self.widgets.patch(ONE, {"metadata": {"labels": labels}})

    def seen(self) -> OwnMeta | None:
        """Return the metadata of the object, None if there is none."""
        server = self.scene.cluster.server
        stored = server.storage.of(WIDGETS.id).get(ONE)
        return None if stored is None else stored.as_(OwnObject).metadata

    def check(self) -> None:
        """What is registered has the finalizer, so that it is cleaned up."""
        meta = self.seen()
        held = {meta.uid} if meta is not None and meta.has_finalizer(FINALIZER) else set()
        assert self.registry <= held


async def run(steps: Sequence[str]) -> None:
    stage = Stage()
    await stage.start()
    try:
        for step in ("create", *steps):
            with suppress(ApiError):
                await stage.play(step)
            stage.check()
        await stage.settle()
        stage.check()
        meta = stage.seen()
        wanted = {meta.uid} if meta is not None and is_on(meta) else set()
        assert stage.registry == wanted
        assert meta is None or meta.has_finalizer(FINALIZER) is is_on(meta)
        assert meta is None or meta.deletion_timestamp is None
    finally:
        await stage.end()


@settings(deadline=None)
@given(STEPS)
def test_what_is_selected_is_registered_and_what_is_not_is_cleaned_up(steps: list[str]) -> None:
    asyncio.run(run(steps))
