"""Facts about `sharder cleanup`: what it touches, what it refuses, and what it reports."""

from dataclasses import replace

from sharder.cli.cleanup import CHECKED_EVERY, PAUSES, Sweep, clean_up
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.errors import (
    Expired,
    Rejected,
    Unavailable,
)
from sharder.core.names import GroupResource, ObjectRef
from tests.support.hooked_objects import Call, HookedObjects, on, once, raising
from tests.support.read_cluster import ReadCluster, as_body
from tests.support.values import (
    DEMO,
    DRAIN,
    OWNER,
    SECRETS,
    WIDGETS,
    A,
    B,
    obj,
    ring,
)

NODES = GroupResource("", "nodes")
RESOURCES = (
    Resource(id=WIDGETS, version="v1", kind="Widget", namespaced=True),
    Resource(id=SECRETS, version="v1", kind="Secret", namespaced=True),
    Resource(id=NODES, version="v1", kind="Node", namespaced=False),
)


class Fake(ReadCluster):
    """A cluster of three resources; there is no ring until a test adds one."""

    def __init__(self) -> None:
        super().__init__(*RESOURCES)
        self.hooked = HookedObjects(*self.resources)
        self.objects = self.hooked
        self.cluster = replace(self.cluster, objects=self.hooked)

    async def fill(self, resource: GroupResource, *things: PartialObject) -> None:
        for thing in things:
            await self.add(resource, thing)

    async def add_ring(self) -> None:
        await self.rings.create("", as_body(ring()))

    async def run(self, *resources: str) -> list[Sweep]:
        every = resources or ("secrets",)
        return await clean_up(self.cluster, ring=DEMO, resources=every, dry_run=False)

    async def stored(self, resource: GroupResource) -> dict[str, PartialObject]:
        return {o.metadata.name: o for o in (await self.objects.stores[resource].list()).items}

    async def marked(self, resource: GroupResource) -> list[str]:
        found = await self.stored(resource)
        return [n for n, o in found.items() if {OWNER, DRAIN} & set(o.metadata.labels or {})]

    def patches(self) -> int:
        return sum(call.verb == "patch" for call in self.hooked.calls)


def counts(sweeps: list[Sweep]) -> dict[str, tuple[int, int, int]]:
    return {str(s.resource.id): (len(s.found), s.cleaned, len(s.failures)) for s in sweeps}


# What is refused


async def test_a_ring_that_comes_back_ends_the_clean_up_of_its_resources() -> None:
    fake = Fake()
    many = CHECKED_EVERY + 100
    await fake.fill(SECRETS, *(obj(SECRETS, f"s-{n}", owner=A) for n in range(many)))
    fake.hooked.before.append(on("patch", SECRETS, once(fake.add_ring)))

    sweeps = await fake.run()

    assert len(sweeps[0].found) == CHECKED_EVERY
    assert "is part of ControllerRing demo" in sweeps[0].failures[0]
    assert len(await fake.marked(SECRETS)) > 100


# What goes wrong


async def test_a_lost_race_is_decided_anew() -> None:
    fake = Fake()
    await fake.fill(SECRETS, obj(SECRETS, "s", owner=A))
    touched: Json = {"metadata": {"labels": {"x": "y"}}}
    ref = ObjectRef("default", "s")
    touch = once(lambda: fake.objects.stores[SECRETS].patch(ref, touched))
    fake.hooked.before.append(on("patch", SECRETS, touch))

    sweeps = await fake.run()

    assert counts(sweeps) == {"secrets": (1, 1, 0)}
    assert (await fake.stored(SECRETS))["s"].metadata.labels == {"x": "y"}
    assert fake.clock.slept == [0.2]


async def test_a_server_that_stays_away_is_asked_a_few_times() -> None:
    fake = Fake()
    await fake.fill(SECRETS, obj(SECRETS, "s", owner=A))
    fake.hooked.before.append(on("patch", SECRETS, raising(Unavailable("away"))))

    sweeps = await fake.run()

    assert counts(sweeps) == {"secrets": (1, 0, 1)}
    assert fake.patches() == 1 + len(PAUSES)
    assert fake.clock.slept == list(PAUSES)


async def test_labels_that_another_client_puts_back_are_a_failure() -> None:
    fake = Fake()
    await fake.fill(SECRETS, obj(SECRETS, "s", owner=A))
    ref, back = ObjectRef("default", "s"), {"metadata": {"labels": {OWNER: B}}}

    async def put_back(_call: Call) -> None:
        await fake.objects.stores[SECRETS].patch(ref, back)

    fake.hooked.after.append(on("patch", SECRETS, put_back))

    sweeps = await fake.run()

    assert counts(sweeps) == {"secrets": (1, 0, 1)}
    assert "another client restores the labels" in sweeps[0].failures[0]


async def test_a_list_that_breaks_is_a_problem_of_its_resource() -> None:
    fake = Fake()
    await fake.fill(SECRETS, *(obj(SECRETS, f"s-{n}", owner=A) for n in range(5)))
    await fake.fill(WIDGETS, obj(WIDGETS, "w", owner=A))

    async def expire() -> None:
        raise Expired("too old")

    fake.hooked.before.append(on("next", SECRETS, once(expire), name="s-3"))
    fake.hooked.before.append(on("patch", SECRETS, raising(Rejected("no")), name="s-1"))

    sweeps = await fake.run("widgets.example.com", "secrets")

    assert counts(sweeps) == {"widgets.example.com": (1, 1, 0), "secrets": (3, 2, 2)}
    assert {*sweeps[1].failures} == {"secrets default/s-1: no", "secrets: too old"}
