"""The page of the console as people see it, in a browser: each state of a ring, and none.

SCREENSHOTS names a directory for the pictures.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from fastapi import FastAPI, HTTPException, Request

from sharder.console.console import Console
from sharder.controllers.movement.backlog import MAX_REMEMBERED, Backlog, Limit
from sharder.core.api.meta import Json
from sharder.core.names import STATE_LABEL, ZONE_LABEL, ObjectRef, ShardName
from sharder.core.status.conditions import EXHAUSTED
from tests.support.chromium import Page, browsing
from tests.support.eventually import eventually
from tests.support.values import DEMO, SECRETS
from tests.unit.console.scene import Scene
from webhook.console_routes import console_routes, create_console_app
from webhook.server import Server

WITHIN: Final = 20.0
SHARDS: Final = tuple(ShardName(f"checksum-7d9f-{letter}") for letter in "abcde")
HOSTILE: Final = "<img src=x onerror=alert(1)>"
A, B, C, D, E = SHARDS


class Stage:
    """A console on a port, a ring with five shards, and a browser before it."""

    def __init__(self, scene: Scene, server: Server, page: Page) -> None:
        self.scene = scene
        self.server = server
        self.page = page

    async def count(self, *objects: int, **fields: int) -> None:
        """Let the status say so many objects of the shards."""
        statuses: list[Json] = [
            {"name": shard, "state": "ready", "objects": n}
            for shard, n in zip(SHARDS, objects, strict=False)
        ]
        await self.scene.write_status(
            **{"objects": sum(objects), "unassigned": 0, "draining": 0, **fields},
            shardStatuses=statuses,
        )

    def lead(self, *objects: int, draining: int = 0) -> None:
        """Let this replica lead; it counts so many objects on the shards, C with open drains."""
        self.scene.objects.update(dict(zip(SHARDS, objects, strict=True)))
        self.scene.lead()
        clock = self.scene.cluster.clock
        drains = Backlog(clock, Limit(MAX_REMEMBERED))
        for number in range(draining):
            drains.note(ObjectRef("default", f"secret-{number}" if number else HOSTILE), C)
        self.scene.console.memory.show_backlogs(
            DEMO, SECRETS, unassigned=Backlog(clock, Limit(MAX_REMEMBERED)), draining=drains
        )

    def move(self, source: ShardName, target: ShardName, objects: int) -> None:
        for _ in range(objects):
            self.scene.move(source, target)

    async def shows(self, selector: str, text: str) -> None:
        """Wait until the elements that match show the text."""

        async def does() -> bool:
            found = await self.page.text(selector)
            if text not in found:
                raise AssertionError(f"{selector} shows {found!r}, not {text!r}")
            return True

        await eventually(does, within=WITHIN)

    async def picture(self, name: str) -> None:
        folder = os.environ.get("SCREENSHOTS")
        if folder:
            await asyncio.sleep(0.6)  # what is drawn moves for half a second
            await self.page.screenshot(Path(folder) / f"{name}.png")


async def only_with_token(request: Request) -> None:
    if request.headers.get("authorization") != "Bearer secret":
        raise HTTPException(401, "send a bearer token")


def opened(console: Console) -> FastAPI:
    """The console as it is on the loopback."""
    return create_console_app(console)


def guarded(console: Console) -> FastAPI:
    """The console as it is on the port of the metrics."""
    app = FastAPI()
    app.include_router(console_routes(console, guard=only_with_token))
    return app


@asynccontextmanager
async def stage(make: Callable[[Console], FastAPI] = opened, at: str = "") -> AsyncIterator[Stage]:
    """Open the page of the console; `at` is what follows its address."""
    scene = Scene()
    app = make(scene.console)

    async def pass_time() -> None:
        while True:
            await asyncio.sleep(0.1)
            await scene.cluster.clock.advance(0.1)

    async with scene.watched(*SHARDS), asyncio.TaskGroup() as group:
        for number, shard in enumerate(SHARDS):
            await scene.label(shard, **{ZONE_LABEL: f"zone-{number % 3 + 1}"})
        passing = group.create_task(pass_time())
        async with Server(app, host="127.0.0.1", port=0) as server, browsing() as page:
            await page.resize(1000, 668)
            await page.open(f"http://127.0.0.1:{server.port}/console{at}")
            yield Stage(scene, server, page)
        passing.cancel()


async def healthy(on: Stage) -> None:
    on.lead(120, 98, 104, 91, 87)
    await on.shows("#headline", "500 objects on 5 shards, each with an owner")
    await on.shows("#rows tr:first-child", f"{A} zone-1 ready 120 24 %")
    await on.shows("#mean", "mean of the available shards: 100 objects")


async def killed(on: Stage) -> None:
    on.lead(120, 98, 104, 91, 87)
    await on.shows("#rows tr:first-child", "120")
    await on.scene.label(B, **{STATE_LABEL: "expired"})
    await on.shows("#headline", f"Shard {B} is late")
    await on.scene.take(B)
    await on.shows("#headline", f"Shard {B} is lost: 98 objects wait for another shard")
    for target, objects in ((A, 14), (C, 20), (D, 11), (E, 12)):
        on.move(B, target, objects)
    await on.shows("#headline", "41 objects wait")
    await on.shows("#rows tr:first-child", f"{B} zone-2 lost 41")
    await on.shows("#moves", f"20 objects from {B} to {C}")
    await on.shows(
        "#faults code", f"kubectl get events -n default --field-selector involvedObject.name={B}"
    )


async def draining(on: Stage) -> None:
    on.lead(120, 98, 104, 91, 87, draining=37)
    await on.scene.annotate(C, evacuate="true")
    on.move(C, D, 9)
    on.move(C, A, 6)
    await on.shows("#headline", "Objects are moving; 500 objects on 5 shards")
    await on.shows("#rows tr[data-phase=ready] .state", "ready evacuating 37 draining for")
    await on.shows("#rows .number", "89")
    await on.shows("#moves", f"9 objects from {C} to {D}")
    await on.shows("#objects code", "sharder objects demo --draining")


async def full(on: Stage) -> None:
    for shard in SHARDS:
        await on.scene.annotate(shard, capacity="objects=100")
    await on.count(100, 100, 100, 100, 100, unassigned=12)
    await on.scene.condition(
        EXHAUSTED, "True", f"12 objects cannot be assigned: all shards are at capacity {HOSTILE}"
    )
    await on.shows("#headline", "No shard has room for more objects")
    await on.shows("#faults .why", HOSTILE)
    await on.shows("#rows tr:first-child", "100 of 100")
    await on.shows("#numbers", "Without owner 12")


async def empty(on: Stage) -> None:
    for shard in SHARDS[1:]:
        await on.scene.cluster.leave(shard)
        await on.scene.cluster.delete_lease(shard)
    await on.count()
    await on.shows("#headline", "No objects counted yet")
    await on.shows("#faults", "New ones get an owner when they are created")


async def unreachable(on: Stage) -> None:
    await healthy(on)
    await on.server.stop()
    await on.shows("#lost-what", "No answer from this sharder since")
    await on.shows("#lost code", "kubectl get pods -n sharding-system")
    await on.shows("#link", "no answer")


STATES: Final[dict[str, Callable[[Stage], Awaitable[None]]]] = {
    "healthy": healthy,
    "killed": killed,
    "draining": draining,
    "full": full,
    "empty": empty,
    "unreachable": unreachable,
}


@pytest.mark.parametrize("name", STATES)
async def test_each_state_is_shown_in_words_and_fits_every_screen(name: str) -> None:
    async with stage() as on:
        await STATES[name](on)
        await on.picture(name)
        await on.page.resize(390, 844, phone=True)
        width = await on.page.evaluate("document.documentElement.scrollWidth")
        await on.picture(f"{name}-phone")
        await on.page.prefer(color_scheme="dark")
        await on.picture(f"{name}-phone-dark")
        markup = await on.page.evaluate("document.querySelectorAll('img').length")
        complaints = [c for c in on.page.complaints if "net::ERR" not in c]

    assert (width, markup, complaints) == (390, 0, [])


async def test_a_screen_reader_meets_landmarks_a_table_and_a_live_region() -> None:
    async with stage() as on:
        await healthy(on)
        roles = await on.page.roles()
        live = await on.page.evaluate("document.getElementById('headline').ariaLive")

    assert live == "polite"
    wanted = {"main", "navigation", "banner", "contentinfo", "status", "table", "row"}
    assert wanted | {"rowheader", "columnheader", "cell", "heading"} <= roles


async def test_the_page_goes_on_where_a_sharder_is_back() -> None:
    async with stage() as on:
        await healthy(on)
        port = on.server.port
        await on.server.stop()
        await on.shows("#link", "no answer")
        app = opened(on.scene.console)
        async with Server(app, host="127.0.0.1", port=port):
            await on.shows("#link", "live")
            hidden = await on.page.evaluate("document.getElementById('lost').hidden")

    assert hidden is True


async def test_a_page_without_token_asks_for_one() -> None:
    async with stage(guarded) as on:
        await on.count(1, 1, 1, 1, 1)
        await on.shows("#refusal", "send a bearer token")
        await on.page.evaluate("document.getElementById('token').value = 'secret'")
        await on.page.evaluate("document.querySelector('#login button').click()")
        await on.shows("#headline", "5 objects on 5 shards, each with an owner")


async def test_a_token_in_the_link_is_used_and_removed_from_it() -> None:
    async with stage(guarded, "#token=secret") as on:
        await on.count(1, 1, 1, 1, 1)
        await on.shows("#headline", "5 objects on 5 shards, each with an owner")
        link = await on.page.evaluate("location.hash")

    assert link == "#ring=demo"
