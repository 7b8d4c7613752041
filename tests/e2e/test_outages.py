"""The API server stops, or answers nothing, for a while: no shard is blamed, nothing moves."""

import asyncio
import json
import signal
import time
from dataclasses import dataclass, field
from typing import TypeAlias

import pytest

from hack.control_plane import ControlPlane
from hack.ownership import Observer, create_secrets, observing
from hack.playground import SHARDS, Playground, wait_until_ready
from sharder.core.errors import Conflict
from sharder.core.names import STATE_LABEL, ObjectRef
from sharder.kube.client import Client
from sharder.kube.typed_stores import leases
from tests.e2e.stand_in import StandIn, keep_running, lease_environment, stand_ins
from tests.history.etcd import APISERVER_FLAGS
from tests.history.recording import Recording, recording
from tests.support.eventually import eventually

Outages: TypeAlias = tuple[tuple[str, int], ...]
"""How the API server is away, and for how many seconds."""
SHORT: Outages = (("stopped", 5), ("silent", 7), ("stopped", 20))
"""Shorter than the Leases of some shards, and longer than all of them."""
LONG: Outages = (("stopped", 60),)
SHARDS_BY_SECONDS = {5: ("shard-0", "shard-1"), 15: ("shard-2",)}
ALL_SHARDS = {name for names in SHARDS_BY_SECONDS.values() for name in names}
QUIET_RING = "quiet"
QUIET = {"quiet-3": 3, "quiet-5": 5, "quiet-15": 15}
"""Shards that never work, by the seconds of their Leases; on a ring over the same Secrets."""
IDLE_RING = "idle"
"""A ring over nothing, to see when a shard that joins is noticed."""
OBJECTS = 100
WITHIN = 60


@dataclass(slots=True, kw_only=True)
class Aftermath:
    """What there was to see."""

    outages: Outages
    before: dict[str, int]
    """The revisions of all objects before the first outage."""
    after: dict[str, int]
    """Those of the same objects when every Lease has had time to run out after the last one."""
    worked: list[float]
    """After each outage: the seconds until a shard had worked on a new object."""
    noticed: list[float]
    """And the seconds until the sharder had noticed a new shard."""
    restarts: list[str]
    """Shards that ended and were started anew."""
    takings: list[str]
    """Shards whose Leases the sharder took."""
    sharder_log: str
    join_seconds: float
    """How long it took, after all that, until a shard that joined had its share."""


@dataclass(slots=True)
class Play:
    """What goes on while the API server comes and goes."""

    plane: ControlPlane
    playground: Playground
    client: Client
    observer: Observer
    trace: Recording
    restarts: list[str] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)
    noticed: list[float] = field(default_factory=list)

    async def outage(self, how: str, seconds: int, newcomer: StandIn) -> None:
        """Let the API server be away, and see what comes after it."""
        if how == "silent":
            self.plane.supervisor.send("kube-apiserver", signal.SIGSTOP)
            await asyncio.sleep(seconds)
            self.plane.supervisor.send("kube-apiserver", signal.SIGCONT)
        else:
            await asyncio.to_thread(self.plane.stop_apiserver)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.plane.start_apiserver)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._see_work(f"after-{len(self.worked)}"))
            group.create_task(self._see_notice(f"{IDLE_RING}-{len(self.noticed)}", newcomer))

    async def _see_work(self, name: str) -> None:
        began = time.monotonic()

        async def worked_on() -> bool:
            present = await self.observer.look()
            return present.live == ALL_SHARDS and not present.faults()

        await eventually(lambda: _create(self.client, name), within=WITHIN)
        await eventually(worked_on, within=WITHIN)
        self.worked.append(time.monotonic() - began)

    async def _see_notice(self, name: str, newcomer: StandIn) -> None:
        began = time.monotonic()
        await newcomer.join()
        ref = ObjectRef(SHARDS, name)

        async def noticed() -> bool:
            lease = await leases(self.client).get(ref)
            return lease.metadata.label(STATE_LABEL) == "ready"

        await eventually(noticed, within=WITHIN)
        self.noticed.append(time.monotonic() - began)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(SHORT, id="short"),
        pytest.param(LONG, id="long", marks=pytest.mark.long),
    ],
)
def aftermath(request: pytest.FixtureRequest) -> Aftermath:
    with ControlPlane(apiserver_flags=APISERVER_FLAGS) as plane:
        aftermath = asyncio.run(_play(plane, request.param))
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        told = [
            f"{how} {seconds} s: {worked:.1f} s, {noticed:.1f} s"
            for (how, seconds), worked, noticed in zip(
                aftermath.outages, aftermath.worked, aftermath.noticed, strict=True
            )
        ]
        print(  # noqa: T201 - figures to compare from run to run
            f"\na new object is worked on, and a new shard noticed, after an API server "
            f"{'; '.join(told)}. A shard joins in {aftermath.join_seconds:.1f} s; "
            f"{len(aftermath.restarts)} starts of shards anew"
        )
    return aftermath


def test_no_shard_is_declared_dead(aftermath: Aftermath) -> None:
    assert aftermath.takings == []
    assert "shard lost" not in aftermath.sharder_log


def test_nothing_moves(aftermath: Aftermath) -> None:
    assert len(aftermath.before) == 2 * OBJECTS
    assert aftermath.after == aftermath.before


def test_every_watch_recovers_each_time(aftermath: Aftermath) -> None:
    assert len(aftermath.worked) == len(aftermath.noticed) == len(aftermath.outages)
    assert max(*aftermath.worked, *aftermath.noticed) <= WITHIN


def test_a_shard_that_joins_afterwards_gets_its_share(aftermath: Aftermath) -> None:
    assert aftermath.join_seconds <= WITHIN


def test_the_sharder_crashes_nowhere(aftermath: Aftermath) -> None:
    assert "Traceback" not in aftermath.sharder_log


async def _play(plane: ControlPlane, outages: Outages) -> Aftermath:
    playground = Playground(plane)
    playground.install()
    plane.apply(_another_ring(plane, QUIET_RING))
    plane.apply(_another_ring(plane, IDLE_RING, namespaces="none"))
    playground.start_sharder(gracefulShutDown="0s")
    await wait_until_ready(playground)
    shard = str(playground.kubeconfig_of("shard"))
    newcomers = {f"{IDLE_RING}-{index}": 600 for index in range(len(outages))}
    async with (
        observing(playground.author) as (observer, client),
        recording(plane.etcd_url) as trace,
        stand_ins(shard, QUIET_RING, QUIET) as quiet,
        stand_ins(shard, IDLE_RING, newcomers) as idle,
        asyncio.TaskGroup() as group,
    ):
        play = Play(plane, playground, client, observer, trace)
        lives = [group.create_task(shard.live()) for shard in quiet.values()]
        for seconds, names in SHARDS_BY_SECONDS.items():
            for name in names:
                playground.start_shard(name, **lease_environment(seconds))
            kubelet = keep_running(playground, names, play.restarts, **lease_environment(seconds))
            lives.append(group.create_task(kubelet))
        try:
            return await _tell(play, outages, list(idle.values()))
        finally:
            for life in lives:
                life.cancel()


async def _tell(play: Play, outages: Outages, newcomers: list[StandIn]) -> Aftermath:
    await play.observer.settled(ALL_SHARDS, within=WITHIN)
    await eventually(lambda: _sees_leases(play.trace), within=WITHIN)
    await create_secrets(play.client, [f"secret-{index:04}" for index in range(OBJECTS)])
    await play.observer.settled(ALL_SHARDS, within=WITHIN)
    await asyncio.sleep(1)
    await eventually(lambda: _has_seen_all(play), within=WITHIN)
    before = play.trace.versions()
    for (how, seconds), newcomer in zip(outages, newcomers, strict=True):
        await play.outage(how, seconds, newcomer)
    # Long enough to take any Lease that was wrongly thought silent.
    await asyncio.sleep(2 * max(*SHARDS_BY_SECONDS, *QUIET.values()) + 1)
    after = {uid: version for uid, version in play.trace.versions().items() if uid in before}
    play.playground.start_shard("shard-3")
    _, join_seconds = await play.observer.settled({*ALL_SHARDS, "shard-3"}, within=WITHIN)
    return Aftermath(
        outages=outages,
        before=before,
        after=after,
        worked=play.worked,
        noticed=play.noticed,
        restarts=play.restarts,
        takings=list(play.trace.takings()),
        sharder_log=play.playground.log("sharder-0"),
        join_seconds=join_seconds,
    )


async def _sees_leases(trace: Recording) -> bool:
    return {held.shard for held in trace.leases} >= {*ALL_SHARDS, *QUIET}


async def _has_seen_all(play: Play) -> bool:
    """Return whether the trace has the last write to each object."""
    present = await play.observer.look()
    checksums = (each for of_secret in present.checksums.values() for each in of_secret)
    metas = [each.metadata for each in (*present.secrets.values(), *checksums)]
    return {m.uid: int(m.resource_version) for m in metas} == play.trace.versions()


async def _create(client: Client, name: str) -> None:
    try:
        await create_secrets(client, [name])
    except* Conflict:
        pass  # an earlier try got through without an answer


def _another_ring(plane: ControlPlane, name: str, namespaces: str = "true") -> str:
    """Return a ring over the same Secrets, so that they have one more owner."""
    ring = json.loads(plane.kubectl("get", "controllerring", "checksum", "-o", "json"))
    spec = {
        "resources": [{"group": "", "resource": "secrets"}],
        "namespaceSelector": {"matchLabels": {"checksum.example.com/enabled": namespaces}},
    }
    typed = {key: ring[key] for key in ("apiVersion", "kind")}
    return json.dumps({**typed, "metadata": {"name": name}, "spec": spec})
