"""What a shard measures, as a scrape shows it."""

import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from sharder.core.errors import Unavailable
from sharder.metrics.shard import shard_metrics
from sharder.sdk import PermanentError, Request
from sharder.sdk.testing.fake_clock import settle
from tests.support.samples import total
from tests.unit.sdk.scene import OWNER, Controller, Scene, at_work


class Measured:
    """The metrics of one test, and what a scrape says."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = shard_metrics(self.registry)

    def scrape(self, name: str, /, **labels: str) -> float:
        return total(generate_latest(self.registry).decode(), name, **labels)

    def own(self, name: str) -> float:
        labels = {"controllerring": "demo", "group": "", "resource": "secrets"}
        return self.scrape(f"controller_sharding_{name}", **labels)

    def results(self) -> dict[str, float]:
        found = {
            result: self.scrape("controller_runtime_reconcile_total", result=result)
            for result in ("success", "requeue_after", "error", "cancelled")
        }
        return {result: count for result, count in found.items() if count}


async def test_reconciles_are_counted_by_their_result() -> None:
    scene, controller, measured = Scene(), Controller(), Measured()
    controller.errors = [RuntimeError("no")]
    ref = await scene.create_secret("one")

    async with at_work(scene, controller, metrics=measured.metrics):
        after_error = measured.results()
        await scene.clock.advance(1)
        controller.result = 5.0
        await scene.label(ref, {"a": "1"})

        assert after_error == {"error": 1}
        assert measured.results() == {"error": 1, "success": 1, "requeue_after": 1}
        assert measured.scrape("controller_runtime_reconcile_errors_total") == 1
        assert measured.scrape("workqueue_retries_total", name="secrets") == 1
        assert measured.scrape("workqueue_adds_total", name="secrets") == 3


async def test_an_error_in_a_task_group_of_the_author_is_an_error() -> None:
    scene, measured = Scene(), Measured()
    await scene.create_secret("one")

    async def fail() -> None:
        raise RuntimeError("no")

    async def reconcile(_: Request) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    async with at_work(scene, reconcile, metrics=measured.metrics):
        assert measured.results() == {"error": 1}


async def test_a_permanent_error_is_no_retry_and_a_delay_is_no_error() -> None:
    scene, controller, measured = Scene(), Controller(result=60), Measured()
    controller.errors = [PermanentError("no")]
    ref = await scene.create_secret("one")

    async with at_work(scene, controller, metrics=measured.metrics):
        await scene.label(ref, {"a": "1"})

        assert measured.results() == {"error": 1, "requeue_after": 1}
        assert measured.scrape("controller_runtime_terminal_reconcile_errors_total") == 1
        assert measured.scrape("workqueue_retries_total") == 0


@pytest.mark.parametrize("status", [False, True])
@pytest.mark.parametrize("late", [False, True])
async def test_a_write_that_a_drain_forbids_is_cancelled_and_no_error(
    late: bool, status: bool, caplog: pytest.LogCaptureFixture
) -> None:
    scene, measured, gate = Scene(), Measured(), asyncio.Event()
    ref = await scene.create_secret("one")

    async def reconcile(request: Request) -> None:
        await gate.wait()
        write = request.patch_status if status else request.patch
        await write({"status": {"a": "1"}})

    async with at_work(scene, reconcile, metrics=measured.metrics):
        if late:
            scene.hold_up_watches()
        await scene.drain(ref)
        gate.set()
        await settle()
        await scene.let_watches_flow()

        assert measured.results() == {"cancelled": 1}
        assert measured.scrape("controller_runtime_reconcile_errors_total") == 0
        assert measured.scrape("workqueue_retries_total", name="secrets") == 0
        assert OWNER not in await scene.labels(ref)
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_the_objects_of_a_shard_are_shown_while_it_works() -> None:
    scene, measured = Scene(), Measured()
    await scene.create_secret("one")
    await scene.create_secret("two")

    async with at_work(scene, Controller(), metrics=measured.metrics) as (shard, _):
        shown = measured.own("owned_objects")
        shard.stop()
        await settle()

    assert shown == 2
    assert b"owned_objects{" not in generate_latest(measured.registry)
    assert b"controller_runtime_max_concurrent_reconciles{" not in generate_latest(
        measured.registry
    )


async def test_attempts_to_renew_the_lease_are_counted_by_result() -> None:
    scene, measured = Scene(), Measured()

    async with at_work(scene, Controller(), metrics=measured.metrics):
        scene.cluster.lease_store.fail(Unavailable("down"))
        await scene.clock.advance(2)

        found = [
            measured.scrape("controller_sharding_lease_renewals_total", result=result)
            for result in ("success", "error")
        ]
        assert found == [2, 1]
