"""Which function an object gets, and when it is tried again."""

import logging
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from sharder.core.api.meta import Json
from sharder.core.errors import Unavailable
from sharder.sdk import PermanentError, Request, Shard
from sharder.sdk.testing import SETTINGS, FakeCluster, ShardTest
from sharder.sdk.testing.storage import metadata_of
from sharder.sdk.testing.writer import Attributes
from sharder.shard.objects import Document
from tests.unit.sdk.scene import Webhook

NAME, THEIRS = "example.com/cleanup", "example.org/theirs"
SECRET = {"kind": "Secret", "metadata": {"name": "one"}}
TAKES = 0.075
"""Seconds until the first retry."""


@dataclass
class Author:
    """Two functions that keep when they were called, and do as they are told."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    calls: list[tuple[str, float]] = field(default_factory=list)
    outcomes: list[float | timedelta | Exception | None] = field(default_factory=list)
    seen: tuple[str, ...] = ()
    """The finalizers at the last reconcile."""
    makes: str = ""
    """The child to create."""
    removes: tuple[str, ...] = ()
    """The finalizers to remove."""

    async def reconcile(self, request: Request) -> float | timedelta | None:
        self.seen = request.metadata.finalizers
        if self.makes:
            await request.ensure({"kind": "ConfigMap", "metadata": {"name": self.makes}})
        return await self._act("reconcile", request)

    async def clean_up(self, request: Request) -> float | timedelta | None:
        return await self._act("clean up", request)

    async def _act(self, what: str, request: Request) -> float | timedelta | None:
        self.calls.append((what, self.cluster.clock.monotonic()))
        for finalizer in self.removes:
            await request.remove_finalizer(finalizer)
        outcome = self.outcomes.pop(0) if self.outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    @property
    def times(self) -> list[float]:
        return [time for _, time in self.calls]

    def test(self, *, cleans_up: bool = False) -> ShardTest:
        shard = Shard(ring="demo", settings=SETTINGS)
        shard.reconciler(
            "secrets",
            self.reconcile,
            owns=["configmaps"],
            on_delete=self.clean_up if cleans_up else None,
            finalizer=NAME if cleans_up else "",
        )
        return ShardTest(shard, self.cluster)

    async def finalizers(self) -> tuple[str, ...]:
        metadata = metadata_of(await self.cluster.get("secrets", "one"))
        return tuple(metadata.get("finalizers") or ())  # type: ignore[arg-type]


async def test_the_finalizer_is_there_before_the_first_reconcile() -> None:
    author = Author()
    async with author.test(cleans_up=True) as test:
        await test.create({**SECRET, "metadata": {"name": "one", "finalizers": [THEIRS]}})

    assert author.seen == (THEIRS, NAME)


async def test_a_webhook_that_removes_the_finalizer_keeps_the_object_from_being_reconciled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def strip(attributes: Attributes) -> Document:
        obj = attributes.obj or {}
        return {**obj, "metadata": metadata_of(obj) | {"finalizers": []}}

    author = Author()
    author.cluster.server.writer.admission = Webhook(strip)
    async with author.test(cleans_up=True) as test:
        await test.create(SECRET)

    assert author.calls == []
    assert "was removed in the write that added it" in caplog.text


async def test_an_object_is_kept_until_its_clean_up_has_ended_and_its_answer_was_not_lost() -> (
    None
):
    author = Author()
    async with author.test(cleans_up=True) as test:
        await test.create({**SECRET, "metadata": {"name": "one", "finalizers": [THEIRS]}})
        author.calls.clear()
        author.outcomes = [Unavailable("not now"), 3]
        await test.cluster.delete("secrets", "one")
        await test.cluster.advance(1)
        assert await author.finalizers() == (THEIRS, NAME)
        test.cluster.store("secrets").fail(Unavailable("no answer"))
        await test.cluster.advance(10)

        assert [what for what, _ in author.calls] == ["clean up"] * 4
        assert await author.finalizers() == (THEIRS,)


async def test_the_finalizer_of_a_kept_object_cannot_be_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    author = Author(removes=(THEIRS, NAME))
    async with author.test(cleans_up=True) as test:
        await test.create(SECRET)
        assert len(author.calls) < 5
        assert f"the finalizer {NAME} would be added to default/one again" in caplog.text

        await test.cluster.delete("secrets", "one")
        assert await test.cluster.list("secrets") == []


async def test_a_finalizer_is_retired_by_a_reconciler_without_on_delete() -> None:
    author = Author(removes=(NAME,))
    async with author.test() as test:
        await test.create({**SECRET, "metadata": {"name": "one", "finalizers": [NAME]}})

        assert await author.finalizers() == ()


@pytest.mark.parametrize("after", [60, timedelta(minutes=1)])
async def test_a_delay_is_no_failure_and_resets_the_back_off(
    after: float | timedelta, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sharder.sdk.runner")
    no = Unavailable("no")
    author = Author(outcomes=[no, no, after, no])
    async with author.test() as test:
        await test.create(SECRET)
        await test.cluster.advance(100)

    first, second, third, fourth, fifth = author.times
    assert (second - first, fourth - third, fifth - fourth) == pytest.approx((TAKES, 60, TAKES))
    assert third - second > TAKES
    levels = [r.levelno for r in caplog.records if r.name == "sharder.sdk.runner"]
    assert levels.count(logging.WARNING) == 3
    assert "requeue_after" in [r.__dict__.get("why") for r in caplog.records]


async def test_a_function_that_returns_no_time_has_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    author = Author(outcomes=[float("nan")])
    async with author.test() as test:
        await test.create(SECRET)
        await test.cluster.advance(1)

    assert author.times == [0, pytest.approx(TAKES)]
    assert "0s or more" in caplog.text


async def test_a_permanent_error_is_not_retried_until_the_object_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    author = Author(outcomes=[PermanentError("no size")], makes="child")
    async with author.test() as test:
        await test.create(SECRET)
        changed: dict[str, Json] = {"metadata": {"annotations": {"by": "hand"}}}
        await test.cluster.patch("configmaps", "child", changed)
        await test.cluster.advance(600)
        assert author.times == [0]
        await test.cluster.patch("secrets", "one", changed)

    assert author.times == [0, 600]
    assert caplog.messages == [
        "reconcile failed, no retry until the object changes: default/one: no size"
    ]
