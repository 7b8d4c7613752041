"""The page of the console as people see it, in a browser."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec
import pytest

from sharder.console.models import Flow, Health, Look, Replica, Ring, RingHealth, Rings
from sharder.core.diagnosis.finding import Finding, Level
from sharder.core.diagnosis.shards import ShardFacts
from sharder.core.names import ShardName
from sharder.core.status.phases import ShardPhase
from tests.support.chromium import Page, browsing
from tests.support.eventually import eventually
from webhook.console import console_app
from webhook.server import Server

WITHIN: Final = 20.0
HOSTILE: Final = "<img src=x onerror=alert(1)>"
HEALTHY: Final = Ring(
    name="demo",
    health=Health.OK,
    headline="300 objects on 3 shards, each with an owner",
    shards=3,
    available_shards=3,
    objects=300,
    unassigned=0,
    shard_list=tuple(
        ShardFacts(name=ShardName(f"p{n}"), phase=ShardPhase.READY, objects=100) for n in range(3)
    ),
)
TROUBLED: Final = msgspec.structs.replace(
    HEALTHY,
    health=Health.BROKEN,
    headline="Shard p1 is lost: 41 objects wait for another shard",
    faults=(
        Finding(
            level=Level.FAIL, check="shards", message="p1 is lost", why=HOSTILE, run=("kubectl x",)
        ),
    ),
    moves=(Flow(source="p1", target="p2", objects=20),),
)
EMPTY: Final = Ring(name="demo", health=Health.ATTENTION, headline="No objects counted yet")


@dataclass
class Told:
    """A console that shows what a test says."""

    ring: Ring

    async def look(self, _: str) -> bytes:
        replica = Replica(version="1", namespace="s", leading=True, not_ready=None)
        names = (RingHealth(name="demo", health=self.ring.health),)
        rings = Rings(replica=replica, rings=names)
        return msgspec.json.encode(Look(now=datetime.now(UTC), rings=rings, ring=self.ring))


@dataclass
class Stage:
    """A console on a port, and a browser before it."""

    told: Told
    server: Server
    page: Page

    async def shows(self, selector: str, text: str) -> None:
        """Wait until the elements that match show the text."""

        async def does() -> None:
            found = await self.page.text(selector)
            assert text in found, f"{selector} shows {found!r}, not {text!r}"

        await eventually(does, within=WITHIN)


@asynccontextmanager
async def stage(ring: Ring = HEALTHY) -> AsyncIterator[Stage]:
    """Open the page of the console."""
    told = Told(ring)
    app = console_app(told.look)
    async with Server(app, host="127.0.0.1", port=0) as server, browsing() as page:
        await page.resize(1000, 668)
        await page.open(f"http://127.0.0.1:{server.port}/console")
        yield Stage(told, server, page)


@pytest.mark.parametrize("ring", [HEALTHY, TROUBLED, EMPTY], ids=lambda ring: ring.health)
async def test_each_state_is_shown_in_words_and_fits_a_phone(ring: Ring) -> None:
    async with stage(ring) as on:
        await on.shows("#headline", ring.headline)
        for shard in ring.shard_list:
            await on.shows("#rows", shard.name)
        for fault in ring.faults:
            await on.shows("#faults", fault.why)
            await on.shows("#faults code", fault.run[0])
        for move in ring.moves:
            await on.shows("#moves", f"{move.objects} objects from {move.source} to {move.target}")
        await on.page.resize(390, 844, phone=True)
        width = await on.page.evaluate("document.documentElement.scrollWidth")
        markup = await on.page.evaluate("document.querySelectorAll('img').length")
        complaints = [c for c in on.page.complaints if "net::ERR" not in c]

    assert (width, markup, complaints) == (390, 0, [])


async def test_a_screen_reader_meets_landmarks_a_table_and_a_live_region() -> None:
    async with stage() as on:
        await on.shows("#headline", HEALTHY.headline)
        roles = await on.page.roles()
        live = await on.page.evaluate("document.getElementById('headline').ariaLive")

    assert live == "polite"
    assert {"main", "navigation", "status", "table", "row", "rowheader", "heading"} <= roles


async def test_the_page_goes_on_where_a_sharder_is_back() -> None:
    async with stage() as on:
        await on.shows("#headline", HEALTHY.headline)
        port = on.server.port
        await on.server.stop()
        await on.shows("#lost-what", "No answer from this sharder since")
        async with Server(console_app(on.told.look), host="127.0.0.1", port=port):
            await on.shows("#link", "live")
