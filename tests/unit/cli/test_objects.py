"""Facts about `sharder.cli.objects` and ages: which objects are listed, and since when."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from sharder.cli import tables
from sharder.cli.explain import explain
from sharder.cli.objects import objects
from sharder.core.api.lease import to_the_second
from sharder.core.api.meta import Json
from sharder.core.api.since import short
from sharder.core.names import GroupResource, drain_label, owner_label
from tests.support.golden import require_golden
from tests.support.read_cluster import ReadCluster, as_body
from tests.support.values import CONFIGMAPS, DEMO, NOW, SECRETS, WIDGETS, A, B, obj

OWNER, DRAIN = f"f:{owner_label(DEMO)}", f"f:{drain_label(DEMO)}"
LATER = NOW + timedelta(seconds=20)
"""When the cluster is read."""


def wrote(manager: str, ago: float, *fields: str) -> Json:
    """A note of the API server: when a client wrote an object last, and the labels it has set."""
    return {
        "manager": manager,
        "time": to_the_second(LATER - timedelta(seconds=ago)),
        "fieldsV1": {"f:metadata": {"f:labels": {field: {} for field in fields}}},
    }


async def add(
    fake: ReadCluster,
    resource: GroupResource,
    name: str,
    *notes: Json,
    age: float = 0,
    owner: str | None = None,
    drain: str | None = None,
    controlled_by: str | None = None,
) -> None:
    body = as_body(obj(resource, name, owner=owner, drain=drain, controlled_by=controlled_by))
    assert isinstance(body, dict)
    created = to_the_second(LATER - timedelta(seconds=age))
    more = {"managedFields": notes, "creationTimestamp": created}
    await fake.objects.stores[resource].create(
        "default", {**body, "metadata": {**body["metadata"], **more}}
    )


async def filled() -> ReadCluster:
    """Objects in each state."""
    fake = await ReadCluster().filled()
    await add(fake, SECRETS, "parent", wrote("sharder", 40, OWNER), owner=A)
    await add(fake, SECRETS, "new", age=125)
    await add(fake, SECRETS, "newer", age=3)
    await add(fake, WIDGETS, "lost", wrote("kubectl", 999, OWNER), owner="no-such-shard")
    drained = (wrote("kubectl", 9000, OWNER), wrote("sharder", 13, DRAIN))
    await add(fake, WIDGETS, "drains", *drained, owner=A, drain="true")
    await add(fake, WIDGETS, "drains-long", wrote("sharder", 3700, DRAIN), owner=B, drain="true")
    await add(fake, CONFIGMAPS, "apart", owner=B, controlled_by="parent")
    await add(fake, CONFIGMAPS, "with-it", wrote("x", 50, OWNER), owner=A, controlled_by="parent")
    await add(fake, CONFIGMAPS, "nothing-controls-it")
    return fake


async def test_all_objects_are_listed_those_first_that_are_longest_in_their_state(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = await filled()

    tables.objects(await objects(fake.cluster, ring=DEMO, state=None, shard=None))

    require_golden("objects", capsys)


@pytest.mark.parametrize(
    ("state", "shard", "names"),
    [
        ("draining", None, ["drains-long", "drains"]),
        ("draining", A, ["drains"]),
        ("unassigned", None, ["new", "newer"]),
        ("apart", None, ["apart"]),
        ("apart", B, ["apart"]),
        ("apart", A, []),
        (None, B, ["drains-long", "apart"]),
    ],
)
async def test_objects_are_chosen_by_state_and_shard(
    state: str | None, shard: str | None, names: Sequence[str]
) -> None:
    fake = await filled()

    found = await objects(fake.cluster, ring=DEMO, state=state, shard=shard)

    assert [row.object.rpartition("/")[2] for row in found.objects] == names


async def test_without_such_objects_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    fake = await ReadCluster().filled()

    tables.objects(await objects(fake.cluster, ring=DEMO, state="apart", shard=None))

    assert capsys.readouterr().out == "no such objects in demo\n"


@pytest.mark.parametrize(
    ("name", "seconds", "bound", "word"),
    [
        ("drains", 13, "at least", "withdraws the drain"),
        ("drains-long", 3700, "at least", "sharder objects demo --draining --shard shard-b"),
        ("lost", None, None, "the leader assigns it within seconds"),
    ],
)
async def test_an_object_is_explained_with_its_age_and_what_to_do(
    name: str, seconds: int | None, bound: str | None, word: str
) -> None:
    fake = await filled()

    told = await explain(fake.cluster, ring=DEMO, resource="widget", name=f"default/{name}")

    since = None if seconds is None else to_the_second(LATER - timedelta(seconds=seconds))
    assert (told.since, told.bound) == (since, bound)
    assert word in (told.advice or "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((-3, "0s"), (0.9, "0s"), (59, "59s"), (60, "1m"), (125, "2m5s"), (3600, "1h")),
        *((3605, "1h"), (3700, "1h1m"), (90_000, "1d1h"), (864_000, "10d")),
    ],
)
def test_an_age_has_two_units_as_in_kubectl(seconds: float, text: str) -> None:
    assert short(seconds) == text
