"""Facts about `sharder pin` and `unpin`."""

from functools import partial

import pytest

from sharder.cli.operations import Operate
from sharder.cli.pins import pin, unpin
from sharder.core.errors import ConfigError
from sharder.core.names import ObjectRef
from tests.support.read_cluster import as_body
from tests.support.steered_cluster import IS_CORDONED, IS_EVACUATED, IS_OPEN, PIN, WIDGET, Steered
from tests.support.values import CONFIGMAPS, DEMO, SECRETS, WIDGETS, A, B, C, lease, obj


@pytest.fixture
async def cluster() -> Steered:
    steered = Steered()
    await steered.filled()
    return steered


def pinning(name: str = "default/w", shard: str = A, resource: str = WIDGET) -> Operate:
    return partial(pin, ring=DEMO, resource=resource, name=name, shard=shard, dry_run=False)


def unpinning(name: str = "default/w", *, dry_run: bool = False) -> Operate:
    return partial(unpin, ring=DEMO, resource=WIDGET, name=name, dry_run=dry_run)


async def test_an_object_is_pinned_and_unpinned(cluster: Steered) -> None:
    await cluster.add(WIDGETS, obj(WIDGETS, "w", owner=A, labels={"app": "web"}))

    pinned = await cluster.run(pinning())

    assert pinned.result == "widgets.example.com default/w is pinned to shard-a"
    assert pinned.object == "widgets.example.com default/w"
    assert await cluster.label(WIDGETS, "w") == A

    freed = await cluster.run(unpinning())

    assert freed.result == "widgets.example.com default/w is unpinned from shard-a"
    found = await cluster.objects.stores[WIDGETS].get(ObjectRef("default", "w"))
    assert (
        found.metadata.labels == obj(WIDGETS, "w", owner=A, labels={"app": "web"}).metadata.labels
    )


async def test_a_pin_is_replaced(cluster: Steered) -> None:
    await cluster.add(WIDGETS, obj(WIDGETS, "w", labels={PIN: B}))

    report = await cluster.run(pinning())

    assert report.result.endswith("is pinned to shard-a instead of shard-b")
    assert await cluster.label(WIDGETS, "w") == A


async def test_a_pin_that_is_there_or_not_already_is_not_written(cluster: Steered) -> None:
    await cluster.add(WIDGETS, obj(WIDGETS, "w", labels={PIN: A}))
    await cluster.add(WIDGETS, obj(WIDGETS, "free"))
    before = cluster.objects.stores[WIDGETS]._state.versions.now

    pinned, free = await cluster.run(pinning()), await cluster.run(unpinning("default/free"))

    assert pinned.result == "widgets.example.com default/w is already pinned to shard-a"
    assert free.result == "widgets.example.com default/free is not pinned"
    assert cluster.objects.stores[WIDGETS]._state.versions.now == before


async def test_a_pin_without_a_value_is_taken_off(cluster: Steered) -> None:
    await cluster.add(WIDGETS, obj(WIDGETS, "w", labels={PIN: ""}))

    report = await cluster.run(unpinning())

    assert report.result.endswith("default/w is unpinned")
    found = await cluster.objects.stores[WIDGETS].get(ObjectRef("default", "w"))
    assert not found.metadata.has_label(PIN)


async def test_a_dry_run_takes_no_pin_off(cluster: Steered) -> None:
    await cluster.add(WIDGETS, obj(WIDGETS, "w", labels={PIN: B}))

    report = await cluster.run(unpinning(dry_run=True))

    assert report.result == (
        "dry run, nothing is written: widgets.example.com default/w would be unpinned from shard-b"
    )
    assert await cluster.label(WIDGETS, "w") == B


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        (pinning(shard=C), "ring demo has no shard shard-c"),
        (pinning(resource="pods"), "ring demo has no resource pods; its resources: configmaps"),
        (pinning("default/x"), "widgets.example.com default/x not found; check the name"),
        (
            pinning("x"),
            "x is not a name of widgets.example.com; use NAME with --namespace, or NAMESPACE/NAME",
        ),
        (unpinning("default/x"), "widgets.example.com default/x not found; check the name"),
    ],
)
async def test_what_is_not_there_is_not_pinned(
    cluster: Steered, operation: Operate, told: str
) -> None:
    await cluster.add(WIDGETS, obj(WIDGETS, "w"))

    with pytest.raises(ConfigError, match=told):
        await cluster.run(operation)


async def test_an_object_that_follows_another_is_not_pinned(cluster: Steered) -> None:
    await cluster.add(SECRETS, obj(SECRETS, "s"))
    await cluster.add(CONFIGMAPS, obj(CONFIGMAPS, "c", controlled_by="s"))

    with pytest.raises(ConfigError, match="are controlled objects, which follow their parents"):
        await cluster.run(pinning("default/c", resource="configmaps"))


@pytest.mark.parametrize(
    ("annotations", "owner", "told"),
    [
        (IS_CORDONED, B, ["shard-a is cordoned: the pin moves no object to it"]),
        (IS_CORDONED, A, []),
        (IS_EVACUATED, A, ["shard-a is being evacuated: the pin has no effect"]),
        (IS_OPEN, B, []),
    ],
)
async def test_a_pin_that_might_have_no_effect_is_warned_of(
    cluster: Steered, annotations: dict[str, str], owner: str, told: list[str]
) -> None:
    await cluster.annotate(A, {**annotations})
    await cluster.add(WIDGETS, obj(WIDGETS, "w", owner=owner))

    await cluster.run(pinning())

    assert cluster.warnings() == told
    assert await cluster.label(WIDGETS, "w") == A


@pytest.mark.parametrize(("owner", "waits"), [(B, True), (A, False), (None, False)])
async def test_a_pin_in_a_paused_ring_warns_that_it_has_to_wait(
    cluster: Steered, owner: str | None, waits: bool
) -> None:
    await cluster.pause()
    await cluster.add(WIDGETS, obj(WIDGETS, "w", owner=owner))

    await cluster.run(pinning())

    told = 'movement of demo is paused; run "sharder resume" to continue'
    assert cluster.warnings() == ([told] if waits else [])


async def test_a_pin_to_a_shard_that_has_left_is_warned_of(cluster: Steered) -> None:
    await cluster.leases.create("default", as_body(lease(C, holder="")))
    await cluster.add(WIDGETS, obj(WIDGETS, "w"))

    await cluster.run(pinning(shard=C))

    assert cluster.warnings() == ["shard-c is not available: the pin has no effect until it is"]


async def test_a_pin_out_of_scope_is_warned_of(cluster: Steered) -> None:
    await cluster.add(WIDGETS, obj(WIDGETS, "w", namespace="elsewhere"))

    await cluster.run(pinning("elsewhere/w"))

    assert cluster.warnings() == ["elsewhere/w is not in the scope of demo: the pin has no effect"]
