"""Joining a ring: what kopf gets, and what stops it."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import kopf
import pytest

import sharder.kopf
from sharder.core.errors import Unavailable
from sharder.kopf.lease_thread import LeaseThread
from sharder.sdk import ConfigError, Settings
from sharder.sdk.testing import FakeCluster
from sharder.shard.identity import Identity
from tests.support.values import DEMO, DRAIN, OWNER, SECRETS, A
from tests.unit.shard.test_probes import readiness

SETTINGS = Settings(name="shard-a", namespace="default", kubeconfig="/absent")


@pytest.fixture
def registry() -> Iterator[kopf.OperatorRegistry]:
    yield kopf.OperatorRegistry()
    kopf.set_default_lifecycle(None)


def join(registry: kopf.OperatorRegistry, settings: Settings = SETTINGS) -> None:
    sharder.kopf.join(
        ring="demo", resources=["secrets", "widgets.example.com"], settings=settings,
        registry=registry,
    )  # fmt: skip


async def start(registry: kopf.OperatorRegistry) -> kopf.OperatorSettings:
    """Start up and clean up as kopf does without a cluster; return kopf's settings."""
    settings = kopf.OperatorSettings()
    functions: Any = [each.fn for each in registry._activities.get_all_handlers()]
    with pytest.raises(kopf.PermanentError, match="no kubeconfig at /absent"):
        await functions[0](settings=settings)
    await functions[1]()
    return settings


async def test_kopf_watches_own_objects_only_without_peering_and_lets_handlers_end(
    registry: kopf.OperatorRegistry,
) -> None:
    join(registry)

    settings = await start(registry)

    collect = settings.watching.label_selectors.collect
    assert collect(kopf.Resource("", "v1", "secrets")) == [f"{OWNER}=shard-a"]
    assert collect(kopf.Resource("example.com", "v1beta1", "widgets", preferred=False))
    assert collect(kopf.Resource("", "v1", "configmaps")) == []
    assert (settings.peering.standalone, settings.peering.mandatory) == (True, False)
    assert settings.queueing.exit_timeout == 20


async def test_daemons_and_timers_that_were_registered_later_are_guarded(
    registry: kopf.OperatorRegistry,
) -> None:
    join(registry)

    @kopf.timer("secrets", interval=1, registry=registry)
    def tick(**_: object) -> None: ...

    await start(registry)

    (timer,) = registry._spawning.get_all_handlers()
    assert timer.when is not None


async def test_invalid_settings_stop_kopf(registry: kopf.OperatorRegistry) -> None:
    join(registry, Settings(name="shard-a"))
    (startup, _) = registry._activities.get_all_handlers()
    function: Any = startup.fn

    assert startup.errors is kopf.ErrorsMode.PERMANENT
    with pytest.raises(ConfigError, match="namespace of the Lease is unknown"):
        await function(settings=kopf.OperatorSettings())


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    cluster = FakeCluster()
    monkeypatch.setattr("sharder.kopf.lease_thread.connected", lambda *_: nullcontext(cluster))
    monkeypatch.setattr("sharder.kopf.lease_thread.SystemClock", lambda: cluster.clock)
    return cluster


def lease_thread(settings: Settings = SETTINGS, **touch: Any) -> LeaseThread:
    gate = Mock(is_running=lambda _uid: False)
    touched = Mock(**touch)
    return LeaseThread(Identity(ring=DEMO, shard=A), [SECRETS], settings, gate, touch=touched)


async def test_a_crash_while_kopf_works_ends_the_process_and_leaves_the_lease(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease, ended = lease_thread(side_effect=TypeError("of a custom storage")), Mock()
    monkeypatch.setattr(os, "_exit", ended)
    await cluster.create(
        {"kind": "Secret", "metadata": {"name": "x", "labels": {OWNER: A, DRAIN: ""}}}
    )

    serving = asyncio.ensure_future(lease._serve())
    await cluster.advance(5)
    await serving

    ended.assert_called_once_with(1)
    assert (await cluster.lease_store.list()).items[0].spec.holder_identity == A


async def test_a_process_that_stops_before_kopf_has_seen_its_objects_is_not_empty(
    cluster: FakeCluster,
) -> None:
    lease = lease_thread()
    cluster.store("secrets").fail(Unavailable("not now"))
    await cluster.create({"kind": "Secret", "metadata": {"name": "x", "labels": {OWNER: A}}})
    serving = asyncio.ensure_future(lease._serve())
    seen = list[tuple[int, bool]]()
    for labels in ({}, {}, {OWNER: None}):
        await cluster.patch("secrets", "x", {"metadata": {"labels": labels}})
        await cluster.advance(10 * len(seen))
        seen.append((lease.objects, lease.is_empty))
    lease._set(lease._ended, lease._stop)
    await serving

    assert seen == [(0, False), (1, False), (0, True)]


async def test_a_process_is_ready_while_it_can_watch_its_objects(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    lease = lease_thread(replace(SETTINGS, http_address="127.0.0.1:0"))
    cluster.store("secrets").fail(*[Unavailable("not now")] * 9)
    serving = asyncio.ensure_future(lease._serve())
    await cluster.advance(5)
    said = await readiness(cluster, "secrets", caplog)
    lease._set(lease._ended, lease._stop)
    await serving

    assert [status for status, _ in said] == [503, 200, 503]
    assert "cannot watch secrets" in said[2][1]


def test_without_kopf_one_line_says_what_to_install(tmp_path: Path) -> None:
    program = "import sys; sys.modules['kopf'] = None; import sharder.kopf"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )

    assert done.returncode == 1
    (*_, last) = done.stderr.splitlines()
    assert last == "ImportError: sharder.kopf needs kopf: install 'sharder[kopf]'"
