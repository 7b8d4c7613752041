"""The invariants of docs/architecture.md about the work of shards, as stories."""

import asyncio

from sharder.core.api.meta import Json
from sharder.core.names import EVACUATE_ANNOTATION, SHARDER_IDENTITY
from sharder.sdk.testing.requests import Call
from tests.stage.story import DRAIN, OWNER, PIN, Story


async def own_writes(story: Story) -> None:
    """A shard reads what it wrote, and what the shard before it wrote, however late its cache."""
    await story.begin("p0 p1", sites=2)
    story.stage.lag = 3.0
    for shard in ("p2", "p3", "p4", "p5"):
        story.stage.shard(shard)
        names = await story.create(3)
        for _ in range(12):
            await asyncio.sleep(0.3)
            for name in names:
                await story.edit(name)


async def handed_over(story: Story) -> None:
    """A shard works on an object only when it sees the children that the last shard made."""
    await story.begin("p0 p1")
    story.shards["p1"].link.stall("configmaps")
    names = await story.create(6)
    mine = [name for name in names if story.label(name) == "p0"]
    await story.until(lambda: len(story.children()) >= len(mine))
    for name in mine:
        await story.edit(name, labels={PIN: "p1"})
    await story.until(lambda: not story.of("p0"))
    await asyncio.sleep(2)
    story.shards["p1"].link.heal()
    await asyncio.sleep(2)


async def lease_held(story: Story) -> None:
    """A shard works only while it holds its Lease."""
    await story.begin("p0 p1", sites=8)
    mine = story.of("p0")
    await asyncio.sleep(2)
    link = story.shards["p0"].link
    link.refuses = lambda call: 503 if "/leases" in call.path else 0
    for _ in range(30):
        await asyncio.sleep(0.5)
        for name in mine:
            await story.edit(name)


async def unseen(story: Story) -> None:
    """A label that a user removes past the webhook is seen at once, or else judged as a limit."""
    await story.begin("p0 p1", sites=6)
    link = story.shards["p0"].link
    link.refuses = lambda call: 503 if call.method == "GET" and "/websites" in call.path else 0
    link.break_streams()
    with story.stage.without_webhook():
        for name in story.of("p0"):
            await story.edit(name, labels={OWNER: None, PIN: "p1"})
        await asyncio.sleep(6)
    assert len(story.children()) > 6  # the old shard made some once more


async def release(story: Story) -> None:
    """A shard releases its Lease after its work has ended."""
    leader = await story.begin("p0 p1", sites=8)
    for _ in range(4):
        await asyncio.sleep(1)
        for name in story.of("p0"):
            await story.edit(name)
        await asyncio.sleep(0.05)
        leader.pause()  # else it takes the objects, which ends the work on them
        story.shards["p0"].terminate()
        await story.until(lambda: story.holder("p0") == "")
        await asyncio.sleep(1)
        leader.resume()
        await asyncio.sleep(1)
        await story.join("p0")


async def withdrawn(story: Story) -> None:
    """A drain that is not wanted any more is withdrawn."""
    await story.begin("p0", sites=6)
    story.shards["p0"].link.hold()
    await story.join("p1")
    await story.until(lambda: any(story.label(name, DRAIN) for name in story.owners()))
    story.shards["p1"].terminate()
    await story.until(lambda: story.holder("p1") == "")
    await story.until(lambda: not any(story.label(name, DRAIN) for name in story.owners()))


async def scope(story: Story) -> None:
    """Objects outside of the ring's namespaces are left alone."""
    await story.begin("p0 p1", sites=2)
    await story.create(3, "kube-system")
    await story.during(20, lambda: set(story.owners(at="kube-system").values()) == {""})


async def paused(story: Story) -> None:
    """A shard that stands still for less than two durations loses nothing."""
    await story.begin("p0 p1", sites=6)
    before = story.owners()
    for seconds in (3.0, 7.0):
        story.shards["p0"].pause()
        await story.during(seconds, lambda: story.owners() == before)
        story.shards["p0"].resume()
        await asyncio.sleep(1)
        await story.join("" if story.shards["p0"].is_running else "p0")


async def proxied(story: Story) -> None:
    """A controller that nobody changed writes to nothing that has left, and makes a child once."""
    await story.begin("p0")
    link = story.stage.proxied_shard("p1").link
    await story.until(lambda: story.holder("p1") == "p1")

    async def slow(call: Call) -> None:
        if call.method == "POST":
            await asyncio.sleep(1.5)

    async def move(before: str, after: str) -> None:
        await story.describe(after, annotations={EVACUATE_ANNOTATION: None})
        await story.describe(before, annotations={EVACUATE_ANNOTATION: "true"})
        await asyncio.sleep(4)
        link.heal()
        await story.until(lambda: not story.of(before) and story.are_together())
        await asyncio.sleep(3)

    link.before.append(slow)
    await story.create(4, labels={PIN: "p1"})
    await asyncio.sleep(1.2)
    await move("p1", "p0")  # while the first children are made
    link.before.clear()
    link.stall("configmaps")
    await move("p0", "p1")
    own = [each for each in link.watchers if each.selection.kind == "PartialObjectMetadata"]
    link.stalled.update(own)
    await move("p1", "p0")  # which the proxy's own watch does not show
    await move("p0", "p1")
    link.refuses = lambda call: 503 if call.method == "POST" else 0
    await story.create(2)
    story.stage.replicas["r0"].kill()
    link.refuses = lambda _: 0
    await story.until(lambda: len(story.children()) == 6)  # which no webhook has labelled
    await asyncio.sleep(1)
    story.stage.controllers["p1"].kill()  # the next one sees what has the label
    await asyncio.sleep(12)
    assert len(story.children()) == 6


async def locked_out(story: Story) -> None:
    """A lost shard returns while its objects, of which few have room, cannot be written."""
    placement: Json = {"strategy": "LeastLoaded", "perShardCapacity": 22}
    leader = await story.begin("p0 p1", sites=40, placement=placement)
    leader.link.refuses = lambda call: 403 * (call.method == "PATCH" and "/websites/" in call.path)
    story.is_judged = False  # they stay where they are
    story.shards["p0"].kill()
    await story.until(lambda: story.holder("p0") == SHARDER_IDENTITY)
    story.stage.shard("p0")
    await story.until(lambda: story.holder("p0") == "p0", within=45)
    assert story.are_together()


async def lost_together(story: Story) -> None:
    """Objects whose next owner ends too, before a write, go to another one without a rest."""
    leader = await story.begin("p0 p1", sites=8)

    async def slow(call: Call) -> None:
        await asyncio.sleep("/p0" in call.path and "'leaseDurationSeconds': 30" in f"{call.body}")

    leader.link.before.append(slow)
    story.shards["p0"].kill()
    story.shards["p1"].kill()
    await story.until(lambda: story.holder("p0") == story.holder("p1") == SHARDER_IDENTITY)
    await asyncio.sleep(3)
    await story.join("p2")
    await story.until(lambda: len(story.of("p2")) == 8, within=4)
