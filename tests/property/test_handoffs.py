"""However watches lag and answers get lost, an object that moves between shards has one child."""

import asyncio
from contextlib import AsyncExitStack, suppress
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from sharder.core.api.meta import Json
from sharder.core.errors import Unavailable
from sharder.core.names import ObjectRef
from sharder.sdk import Request
from tests.unit.sdk.scene import DRAIN, ME, OTHER, OWNER, Scene, at_work

BOTH = ("secrets", "configmaps")
STEPS = st.lists(
    st.sampled_from(
        ["hold children", "hold all", "flow", "drain", "assign", "change", "lose", "wait"]
    ),
    max_size=14,
)


BEFORE = st.sets(st.sampled_from(["hold children", "lose"]))
"""What happens before the object is created."""


class Stage:
    """One object, two shards with caches, and the sharder."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.names = count()
        self.ref = ObjectRef("default", "one")

    async def reconcile(self, request: Request) -> None:
        """Create a child with a new name unless there is one."""
        await request.get()
        if not await request.children("configmaps"):
            name = f"child-{next(self.names)}"
            await request.ensure({"kind": "ConfigMap", "metadata": {"name": name}})

    async def play(self, step: str) -> None:
        """Do one thing that a cluster does."""
        scene = self.scene
        match step:
            case "hold children":
                scene.hold_up_children()
            case "hold all":
                scene.hold_up_watches()
            case "flow":
                await scene.let_watches_flow()
            case "drain" if OWNER in await scene.labels(self.ref):
                await scene.label(self.ref, {DRAIN: "true"})
            case "assign" if OWNER not in await scene.labels(self.ref):
                await self._assign()
            case "change":
                await scene.label(self.ref, {"changed": str(next(self.names))})
            case "lose":
                scene.configmaps.lose(Unavailable("timed out"))
            case _:
                await scene.clock.advance(12)

    async def children(self) -> list[ObjectRef]:
        """Return the children that there are."""
        listed = (await self.scene.configmaps.list()).items
        return [ObjectRef("default", _name(tree)) for tree in listed]

    async def _assign(self) -> None:
        """Move the object to the other shard, children first."""
        annotations = {"moved": str(next(self.names))}
        to = (ME, OTHER)[next(self.names) % 2]
        for child in await self.children():
            with suppress(Unavailable):  # the write got through
                await self.scene.configmaps.patch(child, {"metadata": {"labels": {OWNER: to}}})
        body: Json = {"metadata": {"labels": {OWNER: to}, "annotations": annotations}}
        await self.scene.secrets.patch(self.ref, body)
        await self.scene.clock.advance(0)


def _name(tree: dict[str, Json]) -> str:
    metadata = tree["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["name"])


async def _played(before: set[str], steps: list[str]) -> None:
    stage = Stage()
    async with AsyncExitStack() as stack:
        for name in (ME, OTHER):
            await stack.enter_async_context(
                at_work(stage.scene, stage.reconcile, cache=BOTH, name=name)
            )
        for step in before:
            await stage.play(step)
        await stage.scene.create_secret("one")
        for step in steps:
            await stage.play(step)
            assert len(await stage.children()) <= 1, step
        for step in ("flow", "wait", "assign", "wait", "wait"):
            await stage.play(step)
        assert len(await stage.children()) == 1


@settings(deadline=None)
@given(BEFORE, STEPS)
def test_an_object_never_has_two_children(before: set[str], steps: list[str]) -> None:
    asyncio.run(_played(before, steps))
