"""The invariants of docs/architecture.md about placement, requests and limits, as stories."""

import asyncio
import base64
from collections import Counter

import msgspec

from sharder.core.api.meta import Json
from sharder.core.names import (
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    LOAD_ANNOTATION,
    GroupResource,
)
from sharder.kube.typed_stores import LEASES
from sharder.sdk.testing.requests import Call
from tests.stage.actors import RING, TOKEN
from tests.stage.story import DRAIN, LEADING, OWNER, PIN, SITES, Story

STICKING: dict[str, Json] = {"strategy": "LeastLoaded"}
EVENTS = GroupResource("", "events")


def most(story: Story) -> int:
    """Return how many objects the fullest shard has."""
    return max(Counter(filter(None, story.owners().values())).values(), default=0)


async def same_answer(story: Story) -> None:
    """Replicas that saw the shards in different orders give the same answer."""
    await story.begin("p0 p1 p2 p3 op-11")
    await story.join("op-1")
    other = story.stage.replica("r1")
    await story.until(lambda: other.is_ready)
    for number in range(1500):
        one, two = [await _review(story, name, f"site-{number}") for name in ("r0", "r1")]
        assert one == two, f"site-{number}"


async def _review(story: Story, replica: str, name: str, token: str = TOKEN) -> bytes:
    """Ask a replica where a new object goes."""
    path = f"/{token}/webhooks/sharder/controllerring/{RING}"
    body = {
        "request": {
            "uid": "u",
            "operation": "CREATE",
            "resource": {"group": "example.com", "version": "v1", "resource": "websites"},
            "object": {"metadata": {"name": name, "namespace": "default"}},
        }
    }
    return await story.stage.replicas[replica].review(path, msgspec.json.encode(body))


async def never_sharded(story: Story) -> None:
    """A ring cannot have objects that the cluster depends on."""
    leases: Json = {"group": "coordination.k8s.io", "resource": "leases"}
    await story.begin("p0 p1", sites=2)
    await story.ring(resources=[LEADING, leases])
    await asyncio.sleep(8)
    stored = story.stage.storage.of(LEASES.id).values()
    assert not any(each.meta.has_label(OWNER) for each in stored)


async def large_objects(story: Story) -> None:
    """Neither size nor depth of an object hides its labels."""
    await story.begin("p0 p1")
    path = f"/{TOKEN}/webhooks/sharder/controllerring/{RING}"
    for spec in (b'"' + b"x" * 3_000_000 + b'"', b"[" * 9000 + b"]" * 9000):
        body = (
            b'{"request":{"uid":"u","operation":"CREATE","resource":{"group":"example.com",'
            b'"version":"v1","resource":"websites"},"object":{"spec":%s,"metadata":{"name":"a",'
            b'"namespace":"default","labels":{"%s":"p1"}}}}}'
        ) % (spec, PIN.encode())
        answer = await story.stage.replicas["r0"].review(path, body)
        patch = base64.b64decode(msgspec.json.decode(answer)["response"].get("patch", ""))
        assert b'"p1"' in patch, patch


async def refusals(story: Story) -> None:
    """No request of a user is refused, however odd."""
    await story.begin("p0")
    await story.create(1, annotations={LOAD_ANNOTATION: "?"})
    await story.create(1, labels={PIN: "nowhere"})
    path = "/api/v1/namespaces/default/configmaps"
    assert await story.admin("POST", path, {"metadata": {"name": "alone"}})
    await story.stage.user.client.request(
        "PATCH", f"{path}/alone", body={}, content_type="application/merge-patch+json"
    )
    with story.stage.without_webhook():
        await story.create(1)
    await story.until(lambda: all(story.owners().values()))


async def ceilings(story: Story) -> None:
    """No shard stays above its ceiling; otherwise placed objects stay."""
    await story.begin("p0 p1", placement=STICKING, sites=8)
    before = story.owners()
    await story.join("p2")
    await story.during(15, lambda: story.owners() == before)
    await story.ring(placement={"perShardCapacity": 3})
    await story.until(lambda: most(story) == 3)
    await story.create(3)
    await story.during(15, lambda: most(story) == 3)
    assert Counter(story.owners().values())[""] == 2
    path = f"{SITES.format('default')}/{story.of('p0')[0]}"
    await story.admin("DELETE", path)
    await story.until(lambda: Counter(story.owners().values())[""] == 1)
    await story.during(5, lambda: most(story) == 3)


async def room_again(story: Story) -> None:
    """A drain from a full shard is withdrawn when there is room again."""
    await story.begin("p0 p1", placement=STICKING, sites=8)
    for shard in ("p0", "p1"):
        story.shards[shard].link.stall("websites")
    await story.join("p2")
    await story.ring(placement={"perShardCapacity": 3})
    before = story.owners()
    await story.until(lambda: sum(bool(story.label(n, DRAIN)) for n in before) == 2)
    draining = {name for name in before if story.label(name, DRAIN)}
    await story.during(10, lambda: all(story.label(name, DRAIN) for name in draining))
    assert story.owners() == before
    await story.ring(placement={"perShardCapacity": 9})
    await story.until(lambda: not any(story.label(n, DRAIN) for n in before))
    assert story.owners() == before


async def burst(story: Story) -> None:
    """Objects that are created or assigned at once fill no shard beyond its ceiling."""
    placement: dict[str, Json] = {**STICKING, "perShardCapacity": 5}
    await story.begin("p0 p1 p2", placement=placement)
    story.stage.lag = 1.0
    path = SITES.format("default")
    async with asyncio.TaskGroup() as group:
        for number in range(15):
            group.create_task(story.put("POST", path, {"name": f"b{number}"}))
    await story.until(lambda: all(story.owners().values()))
    assert most(story) == 5
    for name in story.of("p1")[:3]:
        await story.admin("DELETE", f"{path}/{name}")
    story.shards["p0"].kill()
    await story.until(lambda: len(story.of("p0")) == 2)
    await story.during(15, lambda: most(story) <= 5)


async def pins(story: Story) -> None:
    """A pinned object goes to its shard, and comes back to others if that is away."""
    await story.begin("p0 p1", placement=STICKING, sites=4)
    for name in story.owners():
        await story.edit(name, labels={PIN: "p0"})
    await story.until(lambda: len(story.of("p0")) == 4)
    await story.ring(placement={"perShardCapacity": 2})
    await story.create(2)
    await story.during(10, lambda: len(story.of("p0")) >= 2)
    await story.ring(placement={"perShardCapacity": None})
    story.shards["p0"].kill()
    await story.until(lambda: len(story.of("p1")) == 6)


async def cordoned(story: Story) -> None:
    """A cordoned shard keeps what it has and gets nothing; an evacuated one gives all away."""
    await story.begin("p0 p1", placement=STICKING, sites=6)
    await story.describe("p0", annotations={CORDONED_ANNOTATION: "true"})
    await asyncio.sleep(0.5)
    mine = story.of("p0")
    await story.create(6)
    await story.during(8, lambda: story.of("p0") == mine)
    await story.describe("p0", annotations={EVACUATE_ANNOTATION: "true"})
    await story.until(lambda: not story.of("p0"))
    await story.create(4)
    await story.during(5, lambda: not story.of("p0"))


async def stopped(story: Story) -> None:
    """While movement is paused nothing is drained, but the dead are left."""
    await story.begin("p0 p1", sites=8)
    await story.ring(movement={"paused": True})
    before = story.owners()
    await story.join("p2")
    await story.during(10, lambda: story.owners() == before)
    assert not any(story.label(name, DRAIN) for name in story.owners())
    story.shards["p0"].kill()
    await story.until(lambda: not story.of("p0"))


async def neighbours(story: Story) -> None:
    """Pins in one namespace move no object in another."""
    await story.begin("p0 p1", placement={"strategy": "BoundedLoad"}, sites=6)
    before = story.owners()
    assert await story.admin("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
    await asyncio.sleep(0.5)
    pinned = [*await story.create(12, "other", labels={PIN: "p0"})]
    await story.during(20, lambda: story.owners() == before)
    for name in pinned:
        await story.edit(name, "other", labels={PIN: "p1"})
    await story.during(20, lambda: story.owners() == before)


async def reservations(story: Story) -> None:
    """Only the API server reserves room, and what never comes gives it back."""
    placement: dict[str, Json] = {**STICKING, "perShardCapacity": 4}
    await story.begin("p0 p1", placement=placement)
    for number in range(8):
        await _review(story, "r0", f"made-up-{number}", "guessed")
    assert "" not in {story.label(name) for name in await story.create(4)}
    for number in range(4):
        await _review(story, "r0", f"refused-later-{number}")
    await asyncio.sleep(100)
    assert "" not in {story.label(name) for name in await story.create(4)}


async def budgets(story: Story) -> None:
    """No more drains begin in a minute than allowed, and no rescue waits for that."""
    await story.begin("p0", sites=12, movement={"maxMovesPerMinute": 2})
    await story.join("p1")
    await story.during(50, lambda: len(story.of("p1")) <= 2)
    story.shards["p0"].kill()
    await story.until(lambda: len(story.of("p1")) == 12, within=14)


async def rebalancing(story: Story) -> None:
    """Rebalancing ends."""
    rebalance: dict[str, Json] = {"strategy": "EvenLoad", "interval": "10s"}
    await story.begin("p0", placement=STICKING, rebalance=rebalance, sites=9)
    await story.join("p1")
    await story.until(lambda: most(story) == 5, within=60)
    await asyncio.sleep(15)
    before = story.owners()
    await story.during(60, lambda: story.owners() == before)


async def transitions(story: Story) -> None:
    """The Events of a ring add up to its shards, and are few."""
    await story.begin("p0")
    await asyncio.sleep(20)
    for number in range(25):
        await story.forge(f"ghost-{number}")
        await asyncio.sleep(1)
    await asyncio.sleep(120)
    told = [each.tree for each in story.stage.storage.of(EVENTS).values()]
    texts = [(str(each["reason"]), str(each["message"])) for each in told]
    joined = [text for why, text in texts if why == "ShardJoined"]
    ended = [text for why, text in texts if why in {"ShardLost", "ShardLeft"}]
    assert len(joined) < 14, joined
    assert sum(map(shards_in, joined)) == 1 + sum(map(shards_in, ended)) > 20, texts


def shards_in(message: str) -> int:
    """Return how many shards a message is about."""
    words = message.replace(",", "").split()
    named = [word for word in words if word.startswith(("p", "ghost-"))]
    return len(named) + (int(words[words.index("more") - 1]) if "more" in words else 0)


async def parts(story: Story) -> None:
    """A resource that cannot be read stops no other one."""
    secrets: Json = {"group": "", "resource": "secrets"}
    leader = await story.begin("p0 p1", sites=6)
    leader.link.refuses = lambda call: 403 if "/secrets" in call.path else 0
    await story.ring(resources=[secrets, LEADING])
    await asyncio.sleep(1)
    story.shards["p0"].kill()
    await story.until(lambda: not story.of("p0"))


async def back_off(story: Story) -> None:
    """An object that cannot be written is tried by its back-off, and delays no other."""
    leader = await story.begin("p0 p1 p2", sites=9)
    await story.until(lambda: len(story.children()) == 9)
    bad, tries = story.of("p0")[0], list[str]()

    def refuses(call: Call) -> int:
        if call.method == "PATCH" and call.path.endswith(bad):
            tries.append(call.path)
            return 500
        return 0

    leader.link.refuses = refuses
    story.shards["p0"].kill()
    await story.until(lambda: story.of("p0") == [bad])
    story.shards["p1"].kill()
    await story.until(lambda: not story.of("p1"), within=14)
    await asyncio.sleep(60)
    assert 3 <= len(tries) <= 8, f"{len(tries)} tries"
    leader.link.refuses = lambda _: 0
    await story.until(lambda: not story.of("p0"), within=300)


async def bad_child(story: Story) -> None:
    """A child that cannot be written does not hold its parent back for ever, and follows soon."""
    leader = await story.begin("p0 p1", sites=4)
    await story.until(lambda: len(story.children()) == 4)
    await asyncio.sleep(1)
    bad = next(child for child, owner in story.children().items() if owner == "p0")
    leader.link.refuses = lambda call: 500 if call.method == "PATCH" and bad in call.path else 0
    story.is_judged = False  # it stays where it is
    story.shards["p0"].kill()
    await story.until(lambda: set(story.owners().values()) == {"p1"}, within=60)
    for _ in range(9):
        with story.stage.without_webhook():
            await story.edit(bad.rpartition("-")[0], labels={OWNER: None})
        await asyncio.sleep(3.5)
    leader.link.refuses = lambda _: 0
    await story.until(story.are_together, within=60)
