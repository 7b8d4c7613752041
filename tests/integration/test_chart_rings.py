"""A ring that the chart creates and keeps, and a sharder with rights in its namespaces alone."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from hack.control_plane import ControlPlane, KubectlError
from hack.playground import SYSTEM
from sharder.core.api.lease import format_time
from sharder.core.names import EVACUATE_ANNOTATION, RING_LABEL, RingName, drain_label, owner_label
from tests.chart.rendering import CHART, REQUIRED
from tests.support.eventually import eventually
from tests.support.release import WITHIN, Release

RING = RingName("made")
OWNER, DRAIN = owner_label(RING), drain_label(RING)
NAMESPACES = ("team-a", "team-b")
"""Where the objects are; the shards are in the first."""


def values(strategy: str) -> Mapping[str, object]:
    ring = {
        "name": RING,
        "resources": [{"resource": "secrets"}],
        "namespaces": NAMESPACES,
        "create": True,
        "spec": {"shardNamespaces": NAMESPACES[:1], "placement": {"strategy": strategy}},
    }
    return {**REQUIRED, "rings": [ring]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What was seen."""

    rings: Sequence[tuple[str, str]]
    """Uid and strategy after an installation, an upgrade, its end, and another installation."""
    owners: Sequence[Sequence[str]]
    """Of the objects, at first and after they moved."""
    conditions: str
    """Those of the ring, with their statuses."""
    may_list_elsewhere: bool
    log: str
    """Of the sharder, until the objects had moved."""


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    with ControlPlane() as plane:
        yield asyncio.run(tell(Release(plane)))


async def tell(release: Release) -> Story:
    for namespace in NAMESPACES:
        await release.kubectl("create", "namespace", namespace)
    install = ("install", "sharder", str(CHART), "--create-namespace")
    await release.helm(*install, values=values("Rendezvous"))
    rings = [await ring(release)]
    await release.replace_sharder()
    owners = await move(release)
    log = release.plane.supervisor.log("sharder-1").read_text()
    conditions = "{range .status.conditions[*]}{.type}={.status} {end}"
    conditions = await release.kubectl("get", "ring", RING, "-o", f"jsonpath={conditions}")

    await release.helm("upgrade", "sharder", str(CHART), values=values("BoundedLoad"))
    rings.append(await ring(release))
    may_list_elsewhere = await allows(release, "list", "secrets", "-n", "default")
    await release.helm("uninstall", "sharder")
    rings.append(await ring(release))
    await release.helm(*install, values=values("Spread"))
    rings.append(await ring(release))
    return Story(
        rings=rings,
        owners=owners,
        conditions=conditions,
        may_list_elsewhere=may_list_elsewhere,
        log=log,
    )


async def ring(release: Release) -> tuple[str, str]:
    """Return the uid and the strategy of the ring."""
    path = "jsonpath={.metadata.uid} {.spec.placement.strategy}"
    uid, strategy = (await release.kubectl("get", "ring", RING, "-o", path)).split()
    return uid, strategy


async def allows(release: Release, *right: str) -> bool:
    who = f"--as=system:serviceaccount:{SYSTEM}:sharder"
    try:
        await release.kubectl("auth", "can-i", *right, who)
    except KubectlError:
        return False
    return True


async def move(release: Release) -> Sequence[Sequence[str]]:
    """Have an object in each namespace assigned and moved; return their owners."""
    shard, another = "shard-a", "shard-b"
    await asyncio.to_thread(release.plane.apply, lease(shard))
    for namespace in NAMESPACES:
        await release.kubectl("create", "secret", "generic", "object", "-n", namespace)
    at_first = await eventually(lambda: labels(release, OWNER), within=WITHIN)
    await asyncio.to_thread(release.plane.apply, lease(another))
    evacuate = (f"lease/{shard}", "-n", NAMESPACES[0], f"{EVACUATE_ANNOTATION}=true")
    await release.kubectl("annotate", *evacuate)
    await eventually(lambda: labels(release, DRAIN), within=WITHIN)
    for namespace in NAMESPACES:
        acknowledge = ("secret/object", "-n", namespace, f"{OWNER}-", f"{DRAIN}-")
        await release.kubectl("label", *acknowledge)
    return at_first, await eventually(lambda: labels(release, OWNER), within=WITHIN)


async def labels(release: Release, label: str) -> list[str]:
    """Return a label of the objects, which all have to have it."""
    found = []
    for namespace in NAMESPACES:
        got = await release.kubectl("get", "secret", "object", "-n", namespace, "-o", "json")
        found.append(json.loads(got)["metadata"].get("labels", {}).get(label, ""))
    assert all(found), found
    return found


def lease(shard: str) -> str:
    """Return the Lease of a shard that lives for an hour."""
    now = format_time(datetime.now(UTC))
    held = {"holderIdentity": shard, "acquireTime": now, "renewTime": now}
    return json.dumps(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": shard,
                "namespace": NAMESPACES[0],
                "labels": {RING_LABEL: RING},
            },
            "spec": {**held, "leaseDurationSeconds": 3600},
        }
    )


def test_the_first_installation_creates_the_ring_and_later_ones_change_it(story: Story) -> None:
    assert [strategy for _, strategy in story.rings] == [
        "Rendezvous", "BoundedLoad", "BoundedLoad", "Spread"
    ]  # fmt: skip


def test_the_ring_is_the_same_even_after_the_release_was_gone(story: Story) -> None:
    assert len({uid for uid, _ in story.rings}) == 1


def test_objects_of_the_namespaces_are_assigned_and_moved(story: Story) -> None:
    assert story.owners == (["shard-a"] * 2, ["shard-b"] * 2)


def test_the_ring_lacks_no_right(story: Story) -> None:
    assert "Ready=True" in story.conditions.split()
    assert [line for line in story.log.splitlines() if "forbidden" in line.lower()] == []


def test_there_are_no_rights_elsewhere(story: Story) -> None:
    assert not story.may_list_elsewhere
