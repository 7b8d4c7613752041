"""What cannot be read or written stops nothing else, is tried again, and is said to people."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Final

import pytest

from sharder.core.api.meta import Json
from sharder.core.names import GroupResource
from sharder.sdk.testing.requests import Call, Refused
from sharder.sdk.testing.resources import custom
from tests.replica.staged import staged
from tests.replica.world import CONFIGMAPS, DRAIN, OWNER, PIN, SECRETS, SERIES, SITES, World
from tests.stage.stage import eventually

FINE, BROKEN = "default", "broken"
OBJECTS: Final = 12
"""In each namespace; more than are written at once."""


def tried(world: World, name: str, since: int = 0) -> list[Call]:
    """Return the writes to an object that the sharder tried."""
    return [c for c in world.calls[since:] if c.method == "PATCH" and c.path.endswith(f"/{name}")]


@pytest.mark.parametrize("code", [403, 404, 409, 422, 429, 500, 503])
@staged
async def test_an_object_that_cannot_be_written_keeps_only_its_parent_back(
    world: World, code: int
) -> None:
    await world.quiet("p0", "p1")
    world.leaves_children = code == 404  # a child that is gone
    for name in ("poor", "rich"):
        await world.put(name, "p0", to="p1", draining=True)
        await world.put(f"{name}-c", "p0", CONFIGMAPS, of=name)
        await world.put(f"{name}-s", "p0", SECRETS, to="p1")
    ends = [world.refuse(code, "poor-c"), world.refuse(code, "poor-s")]
    await asyncio.sleep(3)
    for name in ("poor", "rich"):
        await world.acknowledge(name)
    await asyncio.sleep(2)
    assert world.owner("rich") == "p1"
    assert world.owner("poor") == ("p1" if code == 404 else "")
    world.leaves_children = True  # after some tries a child keeps its parent back no longer
    await world.edit_ring(movement={"drainTimeout": "7m"})
    await asyncio.sleep(4)
    assert world.owners(SECRETS) == {"poor-s": "p0", "rich-s": "p0*"}
    for end in ends:
        end()
    await eventually(lambda: world.owner("poor-s", SECRETS) == "p0*", within=20)
    await eventually(lambda: world.owner("poor") == "p1", within=20)
    await eventually(lambda: world.owner("poor-c", CONFIGMAPS) == "p1", within=20)


@pytest.mark.slow
@staged
async def test_an_object_that_fails_is_tried_less_and_less_often_and_reported_once(
    world: World,
) -> None:
    await world.quiet("p0")
    end = world.refuse(422, "poor", message="denied by policy")
    await world.put("poor")
    began = world.loop.time()
    times = list[float]()

    async def note(call: Call) -> None:
        if call.method == "PATCH" and call.path.endswith("/poor"):
            times.append(world.loop.time() - began)

    world.replicas["r0"].link.before.insert(0, note)
    for number in range(100):
        await asyncio.sleep(2)
        await world.annotate("poor", {"number": str(number)})
        if number % 10 == 0:  # a pass leaves it alone, too
            await world.edit_ring(movement={"drainTimeout": f"{300 + number}s"})
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert 6 <= len(times) <= 12, times
    assert gaps[0] < 3 < 20 < max(gaps)
    assert world.metric("object_failures_total", **SERIES) == len(times)
    ((name, message),) = world.events("ShardWriteFailed")
    assert f"{name}: {message}".startswith("poor: cannot write the labels of ring demo: ")
    assert world.conditions()["Ready"] == "ReconciliationSucceeded"

    await world.put("other")
    await eventually(lambda: world.owner("other") == "p0", within=1)
    end()
    await eventually(lambda: world.owner("poor") == "p0", within=400)
    await world.label("poor", {OWNER: None})
    end = world.refuse(422, "poor", message="denied by policy")
    await asyncio.sleep(20)
    assert len(world.events("ShardWriteFailed")) >= 1
    assert len(tried(world, "poor", len(world.calls) - 60)) >= 3, "it begins anew"


@pytest.mark.parametrize("label", [OWNER, DRAIN])
@staged
async def test_a_label_that_another_webhook_strips_is_reported_and_rarely_written(
    world: World, label: str
) -> None:
    await world.quiet("p0", "p1")
    await world.put("poor", "p0" if label == DRAIN else "", SECRETS, to="p1")
    server = world.servers[0]
    mutate = server.writer.admission.mutate

    async def strip(attributes: object) -> dict[str, Json]:
        tree = await mutate(attributes)  # type: ignore[arg-type]
        metadata = tree["metadata"]
        assert isinstance(metadata, dict)
        labels = metadata.get("labels")
        if isinstance(labels, dict) and metadata.get("name") == "poor":
            labels.pop(label, None)
        return tree

    server.writer.admission.mutate = strip  # type: ignore[method-assign]
    await world.edit_ring(movement={"drainTimeout": "7m"})
    before = len(world.calls)
    for number in range(40):
        await asyncio.sleep(0.5)
        await world.annotate("poor", {"number": str(number)}, SECRETS)
    assert 3 <= len(tried(world, "poor", before)) <= 7
    ((name, message),) = world.events("ShardLabelRemoved")
    assert name == "poor"
    assert label in message
    await world.put("rich", "", SECRETS)
    await eventually(lambda: world.owner("rich", SECRETS), within=5)


@staged
async def test_a_missing_right_is_a_problem_of_the_ring_that_names_the_rule(world: World) -> None:
    await world.quiet("p0")
    end = world.refuse(403, part="/websites/", message="cannot patch")
    await world.add_namespace(BROKEN)
    await world.put("site")
    await world.put("site", namespace=BROKEN)
    await world.put("other", "", SECRETS)
    await asyncio.sleep(20)
    message = world.message()
    assert message.count("cannot write websites.example.com") == 1
    assert "resources: [websites]" in message
    assert world.owner("other", SECRETS) == "p0"
    assert any("cannot write websites" in text for _, text in world.events())
    end()
    await eventually(lambda: world.conditions()["Ready"] == "ReconciliationSucceeded", within=400)
    assert world.owner("site") == "p0"


@pytest.mark.parametrize(
    ("code", "hint"), [(403, "resources: [websites]"), (500, "busy"), (503, "busy")]
)
@staged
async def test_a_resource_that_cannot_be_listed_is_reported_and_the_others_go_on(
    world: World, code: int, hint: str
) -> None:
    await world.quiet("p0", "p1")
    await world.put("site", "p0", to="p1")
    await world.put("plain", "p0", SECRETS, to="p1")
    end = world.refuse(code, method="GET", part="/websites", message="busy")
    await world.edit_ring(movement={"drainTimeout": "7m"})
    await asyncio.sleep(20)
    assert world.owner("plain", SECRETS) == "p0*"
    assert world.owner("site") == "p0"
    assert "cannot read websites.example.com" in world.message()
    assert hint in world.message()
    asked = len(world.requests("GET", "/websites"))
    await asyncio.sleep(60)
    assert len(world.requests("GET", "/websites")) - asked <= 60
    end()
    await eventually(lambda: world.owner("site") == "p0*", within=120)
    await eventually(lambda: world.conditions()["Ready"] == "ReconciliationSucceeded", within=60)


@staged
async def test_children_that_cannot_be_listed_keep_their_parents(world: World) -> None:
    await world.quiet("p0", "p1")
    for name in ("drained", "site"):
        await world.put(name, "p0", to="p1", draining=name == "drained")
        await world.put(f"{name}-c", "p0", CONFIGMAPS, of=name)
    await asyncio.sleep(3)
    end = world.refuse(403, method="GET", part="/configmaps", message="no")
    await world.acknowledge("drained")
    before = len(world.requests("GET", "/configmaps"))
    await asyncio.sleep(10)
    assert 1 <= len(world.requests("GET", "/configmaps")) - before <= 16
    world.puppets["p0"].kill()
    await asyncio.sleep(30)
    assert world.owner("drained") == ""
    assert world.owner("site").startswith("p0")
    assert "configmaps" in world.message()
    end()
    await eventually(lambda: set(world.owners().values()) == {"p1"}, within=120)


@pytest.mark.slow
@staged
async def test_a_resource_that_comes_later_or_in_another_version_is_found(world: World) -> None:
    gadgets: Json = {"group": "example.com", "resource": "gadgets"}
    main = world.spec()["resources"]
    assert isinstance(main, list)
    await world.begin("p0", resources=[*main, gadgets])
    assert world.conditions()["Ready"] != "ReconciliationSucceeded"
    assert "gadgets.example.com" in world.message()
    await world.put("site")
    await eventually(lambda: world.owner("site") == "p0", within=5)
    world.servers[0].serve(custom("gadgets.example.com", kind="Gadget"))
    path = "/apis/example.com/{}/namespaces/default/gadgets"
    with world.unreviewed():
        await world.write("POST", path.format("v1"), {"metadata": {"name": "first"}})
    await eventually(lambda: world.conditions()["Ready"] == "ReconciliationSucceeded", within=400)
    of = GroupResource("example.com", "gadgets")
    await eventually(lambda: world.owners(of)["first"] == "p0", within=30)

    world.servers[0].withdraw(of, "v1")
    world.servers[0].serve(custom("gadgets.example.com", kind="Gadget", version="v2"))
    world.servers[0].hang_up(of)
    await asyncio.sleep(60)
    with world.unreviewed():
        await world.write("POST", path.format("v2"), {"metadata": {"name": "second"}})
    await eventually(lambda: world.owners(of)["second"] == "p0", within=60)


@staged
async def test_a_strategy_at_fault_is_reported_and_does_not_stop_the_ring(world: World) -> None:
    await world.begin("p0", placement={"strategy": "Custom", "custom": "absent"})
    for number in range(3):
        await world.put(f"s{number}")
    await eventually(
        lambda: "the strategy 'absent' is not installed" in world.message(), within=20
    )
    assert world.owners() == dict.fromkeys(("s0", "s1", "s2"), "")
    await world.edit_ring(placement={"strategy": "ConsistentHash", "custom": None})
    await eventually(lambda: set(world.owners().values()) == {"p0"}, within=10)
    await eventually(lambda: world.conditions()["Ready"] == "ReconciliationSucceeded", within=40)


# A namespace that cannot be read or written.

Hook = Callable[[Call], Awaitable[None]]


def _breaks(what: str) -> Hook:
    async def hook(call: Call) -> None:
        if f"/{BROKEN}/" not in call.path:
            return
        reads, writes = call.method == "GET", call.method == "PATCH"
        if what == "forbidden" and reads:
            raise Refused(403, "no")
        if what == "hangs" and reads and "watch" not in call.query:
            await asyncio.sleep(30)
            raise Refused(504, "no answer in time")
        if what == "rejected" and writes:
            raise Refused(403, "exceeded quota")
        if what == "slow" and writes:
            await asyncio.sleep(10)
            raise Refused(500, "the webhook did not answer")

    return hook


def _left(world: World, namespace: str) -> int:
    """Return how many objects of a namespace are on p0, children included."""
    kinds = (SITES, SECRETS, CONFIGMAPS)
    return sum(o.startswith("p0") for of in kinds for o in _owners_in(world, of, namespace))


def _owners_in(world: World, resource: GroupResource, namespace: str) -> list[str]:
    return list(world.owners(resource, namespace=namespace).values())


async def two_namespaces(world: World, strategy: str = "ConsistentHash") -> None:
    """Start with objects in two namespaces, all on the first of two shards."""
    await world.set_up(world.spec(placement={"strategy": strategy}))
    await world.add_namespace(BROKEN)
    world.join("p0", seconds=60).acknowledges = False
    world.start()
    await asyncio.sleep(35)
    world.has_webhook = False
    for namespace in (FINE, BROKEN):
        for number in range(OBJECTS):
            await world.put(f"plain{number}", "p0", SECRETS, namespace=namespace)
            await world.put(f"s{number}", "p0", namespace=namespace)
            await world.put(f"c{number}", "p0", CONFIGMAPS, of=f"s{number}", namespace=namespace)
    await asyncio.sleep(30)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ConsistentHash", "LeastLoaded"])
@pytest.mark.parametrize("what", ["forbidden", "hangs", "rejected", "slow"])
@staged
async def test_a_namespace_that_cannot_be_read_or_written_keeps_no_other_one_back(
    world: World, what: str, strategy: str
) -> None:
    await two_namespaces(world, strategy)
    world.leaves_children = what == "slow"  # the last child fails when its parent no longer does
    world.puppets["p0"].acknowledges = True
    world.join("p1", seconds=60)
    await asyncio.sleep(1)
    end = world.intercept(_breaks(what))
    await world.puppets["p0"].release()
    await eventually(lambda: not _left(world, FINE), within=35 if what == "hangs" else 8)
    assert _left(world, BROKEN)
    statuses = set[str]()
    await asyncio.sleep(31)
    for _ in range(60):
        await asyncio.sleep(1)
        statuses |= {each.status for each in world.status.conditions if each.type == "Covered"}
    assert "True" not in statuses, "what was not read is not taken for covered"
    assert len(world.requests("GET", f"/{BROKEN}/websites/")) < 14 * OBJECTS
    writes = len(world.requests("PATCH", f"/{BROKEN}/"))
    await asyncio.sleep(60)
    assert len(world.requests("PATCH", f"/{BROKEN}/")) - writes <= 6 * OBJECTS
    end()
    await eventually(lambda: not _left(world, BROKEN), within=120)
    await eventually(lambda: world.conditions()["Covered"] == "AllOwned", within=200)


@staged
async def test_what_is_released_elsewhere_is_handed_over_while_a_namespace_hangs(
    world: World,
) -> None:
    await two_namespaces(world)
    world.join("p1", seconds=60).acknowledges = False
    await eventually(lambda: "p0*" in _owners_in(world, SITES, FINE), within=20)
    await asyncio.sleep(5)
    world.intercept(_breaks("hangs"))
    for namespace in (BROKEN, FINE):
        for name, owner in world.owners(namespace=namespace).items():
            if owner == "p0*":
                await world.label(name, {OWNER: None, DRAIN: None}, namespace=namespace)
    await eventually(lambda: "" not in _owners_in(world, SITES, FINE), within=5)
    assert "p1" in _owners_in(world, SITES, FINE)


@pytest.mark.parametrize("late", [False, True])
@staged
async def test_a_drain_that_failed_often_and_lost_its_answer_leaves_nothing_without_owner(
    world: World, late: bool
) -> None:
    replica = await world.begin("p0", "p1")
    world.puppets["p0"].acknowledges = not late
    await world.put("site", "p0")
    end = world.refuse(500, "site")
    await world.label("site", {PIN: "p1"})
    await asyncio.sleep(60)

    async def lose() -> None:
        replica.link.lost_answers += 1

    end()
    world.before("PATCH", "site", lose)
    await eventually(lambda: world.owner("site") != "p0", within=300)
    await asyncio.sleep(12 * late)
    world.puppets["p0"].acknowledges = True
    await eventually(lambda: world.owner("site") == "p1", within=15)
