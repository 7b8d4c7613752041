"""The invariants of docs/architecture.md about shards, their Leases and their objects, as stories.

Each is a plot that asserts what its docstring says, and is judged like a random play.  Its
mutants are those of mutants.toml with its name as law.

Not on the stage: who can read metrics (tests/unit/webhook), certificates (tests/replica), memory
(the benchmark), and the bound on forged Leases (tests/property/test_membership.py).
"""

import asyncio

from sharder.core.api.lease import Lease
from sharder.core.api.meta import Json
from sharder.core.leases.ring_leases import MAX_KEPT
from sharder.core.names import ObjectRef
from sharder.kube.client import MERGE_PATCH
from sharder.kube.typed_stores import LEASES
from sharder.sdk.testing.requests import Call
from tests.stage.story import DRAIN, MAIN, OWNER, SITES, Story


async def taking(story: Story) -> None:
    """A shard whose Lease was deleted keeps its objects for two durations."""
    await story.begin("p0 p1", sites=6)
    mine = story.of("p0")
    story.shards["p0"].link.hold()
    await story.lease("p0", "DELETE")
    await story.during(4, lambda: story.of("p0") == mine)
    await story.forge("p0", holder="")
    await story.lease("p0", "DELETE")
    await story.during(4.5, lambda: story.of("p0") == mine)
    await story.until(lambda: not story.of("p0"), within=4)


async def taking_unseen(story: Story) -> None:
    """The same, where the leader did not see the deletion, but a list without the Lease."""
    leader = await story.begin("p0 p1", sites=6)
    mine = story.of("p0")
    leader.link.stall("leases")
    await asyncio.sleep(9)
    story.shards["p0"].link.hold()
    await story.lease("p0", "DELETE")
    story.stage.storage.compact()
    leader.link.heal()
    leader.link.break_streams()
    await story.during(8.5, lambda: story.of("p0") == mine)
    await story.until(lambda: not story.of("p0"), within=6)


async def taking_unknown(story: Story) -> None:
    """The same, where the leader has never seen the Lease."""
    leader = await story.begin("p0 p1", sites=6)
    mine = story.of("p0")
    leader.kill()
    story.shards["p0"].link.hold()
    await story.lease("p0", "DELETE")
    story.stage.replica("r1")
    await story.during(8.5, lambda: story.of("p0") == mine)
    await story.until(lambda: not story.of("p0"), within=90)


async def draining(story: Story) -> None:
    """A shard that does not answer, but may work, is asked for its objects, and keeps them."""
    await story.begin("p0", sites=6)
    story.shards["p0"].link.stall("websites")
    await story.join("p1")
    await asyncio.sleep(1)
    assert any(story.label(name, DRAIN) for name in story.of("p0"))
    await story.join("p2")
    await story.during(20.0, lambda: len(story.of("p0")) == 6)
    story.shards["p0"].link.heal()
    await story.until(lambda: bool(story.of("p1")))


async def leaving(story: Story) -> None:
    """A shard whose Lease is invalid is drained, and gets nothing."""
    await story.begin("p1")
    await story.forge("ghost")
    await asyncio.sleep(0.5)
    await story.create(8)
    mine = story.of("ghost")
    assert mine
    await story.lease("ghost", leaseDurationSeconds=10**7)
    await story.until(lambda: all(story.label(name, DRAIN) for name in mine))
    await story.create(8)
    await story.during(3.0, lambda: story.of("ghost") == mine)


async def held_twice(story: Story) -> None:
    """A name that two shards hold is given nothing, and keeps what it has."""
    await story.begin("p0 p1", sites=8, shardNamespaces=[])
    mine = story.of("p0")
    await story.forge("p0", "kube-system")
    await asyncio.sleep(0.5)
    await story.create(8)
    await story.during(3.0, lambda: story.of("p0") == mine)


async def returning(story: Story) -> None:
    """A shard that comes back while its objects are taken keeps them, also without a Lease."""
    leader = await story.begin("p0 p1 p2", sites=8)
    mine = story.of("p0"), story.of("p2")
    standby = story.stage.replica("r1")
    await asyncio.sleep(1)
    leader.pause()
    for name in ("p0", "p2"):
        story.shards[name].terminate()
    await story.until(lambda: story.holder("p0") == story.holder("p2") == "")
    await asyncio.sleep(0.1)
    standby.link.stall()
    await story.join("p0 p2")
    story.shards["p2"].link.is_cut = True
    await story.lease("p2", "DELETE")
    leader.kill()
    await story.until(lambda: standby.leads)
    await story.during(3.0, lambda: (story.of("p0"), story.of("p2")) == mine)


async def returning_unseen(story: Story) -> None:
    """The same, where its Lease was deleted, and no event says that it has a new one."""
    leader = await story.begin("p0 p1", sites=8)
    mine = story.of("p0")
    story.shards["p0"].kill()
    await story.lease("p0", "DELETE")
    await asyncio.sleep(0.5)
    leader.link.stall("leases")
    await story.join("p0")
    await story.during(20.0, lambda: story.of("p0") == mine)


async def returning_unknown(story: Story) -> None:
    """The same, where the leader has never seen the Lease that was deleted."""
    leader = await story.begin("p0 p1", sites=8, resources=[MAIN])
    mine = story.of("p0")
    leader.kill()
    story.shards["p0"].kill()
    await story.lease("p0", "DELETE")
    replica = story.stage.replica("r1")
    await story.until(lambda: replica.leads)
    replica.link.stall("leases")
    await story.join("p0")
    await story.during(40.0, lambda: story.of("p0") == mine)


async def returning_meanwhile(story: Story) -> None:
    """The same, where it comes back right after the API server was asked about it."""
    leader = await story.begin("p0 p1", sites=8, resources=[MAIN])
    name = story.of("p0")[0]

    async def come_back(call: Call) -> None:
        if call.method == "PATCH" and call.path.endswith(name):
            leader.link.before.remove(come_back)
            leader.link.stall("leases")
            await story.join("p0")
            await story.edit(name)  # so that the leader tries again

    leader.link.before.append(come_back)
    story.shards["p0"].kill()
    await story.lease("p0", "DELETE")
    await story.during(30.0, lambda: story.label(name) == "p0")
    assert story.shards["p0"].is_running


async def returning_as_twin(story: Story) -> None:
    """The same, where another Lease of its name, in another namespace, falls silent meanwhile."""
    leader = await story.begin("p0 p1", sites=8, shardNamespaces=[])
    mine = story.of("p0")
    leader.pause()
    story.shards["p0"].terminate()
    await story.until(lambda: story.holder("p0") == "")
    await story.forge("p0", "kube-system")
    leader.resume()
    await asyncio.sleep(1)
    leader.link.stall("leases")
    await story.join("p0")
    await story.during(20.0, lambda: story.of("p0") == mine)


async def forgotten(story: Story) -> None:
    """An unknown shard is gone when the API server shows no Lease of it, however many it has."""
    leader = await story.begin("p0 p1", sites=4, resources=[MAIN])
    leader.kill()
    story.shards["p0"].kill()
    await story.lease("p0", "DELETE")
    for number in range(MAX_KEPT + 1):
        await story.forge(f"forged-{number}", holder="another-client")
    story.stage.replica("r1")
    await story.until(lambda: not story.of("p0"), within=90)


async def kept(story: Story) -> None:
    """A released Lease is kept for a minute, whatever the clock of its shard, and then deleted."""
    await story.begin("p1")
    story.skew = -3600.0
    await story.join("p0")
    story.shards["p0"].terminate()
    await story.until(lambda: story.holder("p0") == "")
    await story.during(55, lambda: story.holder("p0") is not None)
    await story.until(lambda: story.holder("p0") is None, within=15)


async def takeover(story: Story) -> None:
    """A silent Lease is taken after two durations, whatever the clock of its shard."""
    leader, once = await story.begin("p1"), {"PATCH": 409}
    story.skew = -3600.0
    await story.join("p0")
    story.shards["p0"].kill()
    leader.link.refuses = lambda call: once.pop(call.method, 0) if "/p0" in call.path else 0
    await story.during(8.9, lambda: story.holder("p0") == "p0")
    await story.until(lambda: story.holder("p0") != "p0", within=2.5)
    lease = story.stage.storage.of(LEASES.id)[ObjectRef("default", "p0")].as_(Lease)
    assert (lease.spec.lease_transitions, once) == (1, {})


async def takeover_unseen(story: Story) -> None:
    """The same, counted from when the leader reads it, where the watch shows it only later."""
    leader = await story.begin("p1")
    story.skew = -3600.0
    await story.join("p0")
    await story.create(6)
    leader.link.stall("leases")
    await asyncio.sleep(2.5)
    story.shards["p0"].kill()
    await story.during(8.9, lambda: story.holder("p0") == "p0")
    await story.until(lambda: story.holder("p0") != "p0", within=10)
    await story.until(lambda: not story.of("p0"), within=1)
    leader.link.heal()
    await story.create(20)
    await story.during(5, lambda: not story.of("p0"))


async def outage(story: Story) -> None:
    """While the API server is away no shard can renew: that time is no silence."""
    leader = await story.begin("p1")
    await story.forge("ghost")
    await asyncio.sleep(3)
    with story.stage.away():
        await asyncio.sleep(9)
    leader.link.heal()
    await story.during(4, lambda: story.holder("ghost") == "ghost")


async def orphans(story: Story) -> None:
    """An object whose label a user removed waits for its last shard, also if it is edited."""
    await story.begin("p0 p1", resources=[MAIN], sites=6)
    await asyncio.sleep(3)
    with story.stage.without_webhook():
        for name in story.owners():
            await story.edit(name, labels={OWNER: None})
    await asyncio.sleep(0.5)
    for name in story.owners():
        await story.edit(name)
    await story.during(2.0, lambda: not any(story.owners().values()))
    await story.until(lambda: all(story.owners().values()), within=5)


async def children(story: Story) -> None:
    """Children move before their parent, whether its shard dies or gives it up."""
    await story.begin("p0 p1", sites=8)
    await story.until(lambda: len(story.children()) == 8)
    await asyncio.sleep(2.5)
    story.shards["p0"].kill()
    await story.until(lambda: not story.of("p0"))
    await asyncio.sleep(2.5)
    await story.join("p2")
    await story.until(lambda: bool(story.of("p2")))
    await asyncio.sleep(2.5)
    assert story.are_together()


async def woken(story: Story) -> None:
    """A replica that stood still does not place by what it saw before: a child would get lost."""
    leader = await story.begin("p0")
    other = story.stage.replica("r1")
    await story.until(lambda: other.is_ready)
    other.is_ready = False
    other.pause()
    await story.join("p1")
    await asyncio.sleep(3)
    await story.create(12)
    assert story.of("p1")
    leader.is_ready, other.is_ready = False, True
    await asyncio.sleep(1)
    other.resume()
    await story.until(lambda: len(story.children()) == 12)
    assert story.are_together()


async def edited(story: Story) -> None:
    """The same where users edit objects that have no owner while nobody leads."""
    leader = await story.begin("p0 p1", sites=8)
    story.stage.replica("r1")
    await story.until(lambda: len(story.children()) == 8)
    await asyncio.sleep(2.5)
    leader.pause()
    leader.is_ready = False
    with story.stage.without_webhook():
        for name in story.owners():
            await story.edit(name, labels={OWNER: None})
    await story.join("p2")
    for name in story.owners():
        await story.edit(name)
    await story.until(lambda: all(story.owners().values()))
    await story.until(story.are_together)


async def stays(story: Story) -> None:
    """Children stay while their parent drains."""
    await story.begin("p0", sites=8)
    await story.until(lambda: len(story.children()) == 8)
    story.shards["p0"].link.stall("websites")
    await story.join("p1")
    await story.join("p2")
    await story.during(20.0, lambda: set(story.children().values()) == {"p0"})


async def gathered(story: Story) -> None:
    """A child that is not with its parent comes to it."""
    await story.begin("p0 p1", sites=4)
    await story.until(lambda: len(story.children()) == 4)
    child, owner = next(iter(story.children().items()))
    story.shards[owner].link.hold()
    with story.stage.without_webhook():
        other = {"p0": "p1", "p1": "p0"}[owner]
        path = f"/api/v1/namespaces/default/configmaps/{child}"
        await story.admin("PATCH", path, {"metadata": {"labels": {OWNER: other}}})
    await story.ring(movement={"maxConcurrentDrains": 5})
    await story.until(lambda: story.children()[child] == owner, within=2.5)
    story.shards[owner].link.heal()


async def acknowledgement(story: Story) -> None:
    """Only a shard can release an object, and only if it was asked; nobody else places it."""
    await story.begin("p0 p1")
    await story.create(10, labels={OWNER: "p0"})
    assert story.of("p1")
    before = story.owners()
    for name in before:
        await story.edit(name, labels={OWNER: "p1"})
        await story.edit(name, labels={OWNER: None, DRAIN: None})
    await story.during(0.5, lambda: story.owners() == before)
    story.shards["p0"].link.hold()
    await story.join("p2")
    drained = [name for name in story.of("p0") if story.label(name, DRAIN)]
    assert drained
    for name in drained:
        await story.edit(name, labels={OWNER: None, DRAIN: None})
    assert set(drained) <= set(story.of("p0"))
    path = f"{SITES.format('default')}/{drained[0]}"
    released: Json = {"metadata": {"labels": {OWNER: None, DRAIN: None}}}
    await story.shards["p1"].client.request("PATCH", path, body=released, content_type=MERGE_PATCH)
    assert set(drained) <= set(story.of("p0"))
    path = f"{SITES.format('default')}/{story.of('p1')[0]}"
    before = story.owners()
    await story.shards["p1"].client.request("PATCH", path, body=released, content_type=MERGE_PATCH)
    assert story.owners() == before


async def watches(story: Story) -> None:
    """A watch whose version is compacted starts anew."""
    leader = await story.begin("p0 p1", sites=4)
    leader.link.cut()
    await story.create(6)
    story.stage.storage.compact()
    leader.link.heal()
    await story.join("p2")
    await story.until(lambda: bool(story.of("p2")))


async def restored(story: Story) -> None:
    """No watch waits for a version that a restored etcd has lost; shards start anew."""
    await story.begin("p0 p1", sites=4)
    backup = story.stage.backup()
    for _ in range(4):
        await story.create(30)
        await asyncio.sleep(1)
    await story.stage.restore(backup)
    await story.until(lambda: not any(story.shards[name].is_running for name in ("p0", "p1")))
    await story.join("p0 p1 p2")
    await story.until(lambda: bool(story.of("p2")))


async def guarded(story: Story) -> None:
    """Only the leader writes objects that have an owner, each onto the version that it read."""
    leader = await story.begin("p0 p1", sites=8)
    story.stage.replica("r1")
    leader.link.delay = 0.2
    story.shards["p0"].link.stall("websites")
    await story.join("p2")
    await story.until(lambda: any(story.label(name, DRAIN) for name in story.of("p0")))
    story.shards["p0"].kill()
    await story.until(lambda: not story.of("p0"))
    arrived = [w for w in story.stage.history.writes if w.owner != "p0" and w.draining]
    assert not any(w.owner == "p2" for w in arrived), "arrived with a drain"
