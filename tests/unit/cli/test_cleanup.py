"""Facts about `sharder cleanup` that no transcript shows: what others do meanwhile."""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from typing_extensions import override

from sharder.cli.cleanup import CHECKED_EVERY, PAUSES, Sweep, clean_up
from sharder.core.api.meta import PartialObject
from sharder.core.errors import Conflict, Rejected, Unavailable
from sharder.core.names import ObjectRef
from sharder.sdk.testing.storage import Tree, metadata_of
from sharder.sdk.testing.writer import Admission, Attributes
from tests.support.read_cluster import PERSON, ReadCluster, as_body
from tests.support.values import DEMO, DRAIN, OWNER, SECRETS, A, B, obj, ring

Act = Callable[[Attributes], Awaitable[Tree | None]]


class Meanwhile(Admission):
    """Lets others act before a write is stored, or changes it."""

    def __init__(self, act: Act) -> None:
        self._act = act

    @override
    async def mutate(self, attributes: Attributes) -> Tree:
        done = await self._act(attributes) if attributes.call.client is PERSON else None
        return done or await super().mutate(attributes)


class Fake(ReadCluster):
    """A cluster with Secrets of a ring that is not there until a test adds it."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets = self.stores[SECRETS]

    async def run(self, act: Act, *, many: int = 1) -> Sweep:
        """Clean so many Secrets up; `act` is done at each write."""
        for number in range(many):
            await self.add(SECRETS, obj(SECRETS, f"s-{number}", owner=A))
        self.server.writer.admission = Meanwhile(act)
        (sweep,) = await clean_up(self.cluster, ring=DEMO, resources=("secrets",), dry_run=False)
        return sweep

    async def stored(self) -> list[PartialObject]:
        return list((await self.secrets.list()).items)


async def test_a_ring_that_comes_back_ends_the_clean_up_of_its_resources() -> None:
    fake = Fake()

    async def come_back(_: Attributes) -> None:
        with suppress(Conflict):
            await fake.rings.create("", as_body(ring()))

    sweep = await fake.run(come_back, many=CHECKED_EVERY + 100)

    marked = [
        one for one in await fake.stored() if {OWNER, DRAIN} & set(one.metadata.labels or {})
    ]
    assert len(sweep.found) == CHECKED_EVERY
    assert "is part of ControllerRing demo" in sweep.failures[0]
    assert len(marked) >= 100


async def test_a_lost_race_is_decided_anew() -> None:
    fake = Fake()

    async def touch(_: Attributes) -> None:
        fake.server.writer.admission = Admission()
        await fake.secrets.patch(ObjectRef("default", "s-0"), {"metadata": {"labels": {"x": "y"}}})

    sweep = await fake.run(touch)

    assert (sweep.cleaned, sweep.failures) == (1, [])
    assert [one.metadata.labels for one in await fake.stored()] == [{"x": "y"}]
    assert fake.clock.slept == [0.2]


async def test_a_server_that_stays_away_is_asked_a_few_times() -> None:
    fake = Fake()

    async def be_away(_: Attributes) -> None:
        raise Unavailable("away")

    sweep = await fake.run(be_away)

    assert (sweep.cleaned, len(sweep.failures)) == (0, 1)
    assert fake.clock.slept == list(PAUSES)


async def test_labels_that_another_client_puts_back_are_a_failure() -> None:
    async def put_back(attributes: Attributes) -> Tree:
        written = attributes.obj or {}
        return {**written, "metadata": {**metadata_of(written), "labels": {OWNER: B}}}

    sweep = await Fake().run(put_back)

    assert sweep.cleaned == 0
    assert "another client restores the labels" in sweep.failures[0]


async def test_what_was_found_before_a_list_fails_is_cleaned() -> None:
    fake, lists = Fake(), iter((True, False))
    fake.server.allows = lambda _, verb, __, ___: verb != "list" or next(lists)

    async def refuse_one(attributes: Attributes) -> None:
        if attributes.place.name == "s-1":
            raise Rejected("no")

    sweep = await fake.run(refuse_one, many=5)

    assert (len(sweep.found), sweep.cleaned) == (5, 4)
    assert sorted(each.split()[1] for each in sweep.failures) == ["GET", "default/s-1:"]
