"""Joining a ring: what kopf gets, and what stops it."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kopf
import pytest

import sharder.kopf
from sharder.sdk import ConfigError, Settings
from tests.support.values import OWNER

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


async def start(
    registry: kopf.OperatorRegistry, problem: str = "no kubeconfig at /absent"
) -> kopf.OperatorSettings:
    """Start up as kopf does, without a cluster; return kopf's settings after it has failed."""
    settings = kopf.OperatorSettings()
    (startup, _) = registry._activities.get_all_handlers()
    function: Any = startup.fn
    with pytest.raises(kopf.PermanentError, match=problem):
        await function(settings=settings)
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


async def test_an_operator_without_a_cluster_stops_cleanly(
    registry: kopf.OperatorRegistry,
) -> None:
    join(registry)
    await start(registry)
    (_, cleanup) = registry._activities.get_all_handlers()
    function: Any = cleanup.fn

    await function()


async def test_invalid_settings_stop_kopf(registry: kopf.OperatorRegistry) -> None:
    join(registry, Settings(name="shard-a"))
    (startup, _) = registry._activities.get_all_handlers()
    function: Any = startup.fn

    assert startup.errors is kopf.ErrorsMode.PERMANENT
    with pytest.raises(ConfigError, match="namespace of the Lease is unknown"):
        await function(settings=kopf.OperatorSettings())


def test_without_kopf_one_line_says_what_to_install(tmp_path: Path) -> None:
    program = "import sys; sys.modules['kopf'] = None; import sharder.kopf"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )

    assert done.returncode == 1
    (*_, last) = done.stderr.splitlines()
    assert last == "ImportError: sharder.kopf needs kopf: install 'sharder[kopf]'"
