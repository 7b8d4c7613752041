"""Which function an object gets, and when it is tried again."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from sharder.core.api.meta import Json
from sharder.core.errors import Unavailable
from sharder.core.names import ObjectRef
from sharder.metrics.shard import ShardMetrics
from sharder.sdk import Backoff, OwnMeta, PermanentError, Request, Requeue
from sharder.sdk.measures import Measures
from sharder.sdk.predicates import Selector, every_object
from sharder.sdk.reconciler import Reconciler
from sharder.sdk.runner import Runner
from sharder.sdk.testing.storage import metadata_of
from sharder.sdk.testing.writer import Attributes
from sharder.shard.objects import Document
from tests.unit.sdk.bench import CHILD, Bench
from tests.unit.sdk.scene import RING, SECRETS, HalfWay, Webhook

NAME, THEIRS = "example.com/cleanup", "example.org/theirs"


@dataclass
class Author:
    """Two functions that keep what was called, and fail or write if told so."""

    calls: list[str] = field(default_factory=list)
    outcome: float | timedelta | Exception | None = None
    annotations: Mapping[str, Json] | None = None

    async def reconcile(self, request: Request) -> float | timedelta | None:
        self.calls.append("reconcile")
        return await self._act(request)

    async def clean_up(self, request: Request) -> None:
        self.calls.append("clean up")
        await self._act(request)

    async def _act(self, request: Request) -> float | timedelta | None:
        if self.annotations:
            await request.patch({"metadata": {"annotations": self.annotations}})
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Stage:
    """A runner on one object of ours."""

    def __init__(self, bench: Bench, author: Author, reconciler: Reconciler) -> None:
        self.bench, self.author = bench, author
        measures = Measures(RING, SECRETS.id, ShardMetrics(), bench.scene.clock)
        self._runner = Runner(reconciler, bench.context, measures=measures, rng=HalfWay())

    @classmethod
    async def make(
        cls,
        *,
        cleans_up: bool = False,
        selects: Selector = every_object,
        backoff: Backoff | None = None,
        outcome: Exception | None = None,
    ) -> "Stage":
        author = Author(outcome=outcome)
        reconciler = Reconciler(resource=SECRETS.id, reconcile=author.reconcile, selects=selects)
        if cleans_up:
            reconciler = replace(reconciler, on_delete=author.clean_up, finalizer=NAME)
        if backoff:
            reconciler = replace(reconciler, backoff=backoff)
        return cls(await Bench.make(), author, reconciler)

    async def run(self) -> float | None:
        """Run on the object as the watch last showed it."""
        return await self._runner.run(self.bench.ref)

    def show_that_it_is_gone(self) -> None:
        """Let the watch show that the object is gone."""
        self._runner.forget(self.bench.ref)

    @property
    def remembered(self) -> Mapping[ObjectRef, str]:
        """The objects whose finalizer was removed."""
        return self._runner._handling._released

    async def change(self, metadata: Mapping[str, Json]) -> None:
        """Change the object behind the back of the watch."""
        await self.bench.scene.secrets.patch(self.bench.ref, {"metadata": metadata})

    async def delete(self) -> None:
        """Do as kubectl does, and let the watch show it."""
        meta = await self.metadata()
        await self.bench.scene.secrets.delete(
            self.bench.ref, uid=str(meta["uid"]), resource_version=str(meta["resourceVersion"])
        )
        await self.bench.refresh()

    async def tree(self) -> Document:
        return await self.bench.scene.secrets.get(self.bench.ref)

    async def metadata(self) -> Mapping[str, Json]:
        metadata = (await self.tree())["metadata"]
        assert isinstance(metadata, Mapping)
        return metadata


async def test_the_finalizer_is_there_before_the_first_reconcile() -> None:
    stage = await Stage.make(cleans_up=True, outcome=Unavailable("at once"))

    await stage.run()

    assert stage.author.calls == ["reconcile"]
    assert (await stage.metadata())["finalizers"] == [NAME]


async def test_an_object_that_another_client_changes_meanwhile_gets_the_finalizer_too() -> None:
    stage = await Stage.make(cleans_up=True)
    await stage.change({"finalizers": [THEIRS]})

    await stage.run()

    assert stage.author.calls == ["reconcile"]
    assert (await stage.metadata())["finalizers"] == [THEIRS, NAME]


async def test_a_webhook_that_removes_the_finalizer_keeps_the_object_from_being_reconciled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = await Stage.make(cleans_up=True)
    stage.bench.scene.cluster.server.writer.admission = Webhook(_without_finalizers)

    assert await stage.run() is not None

    assert stage.author.calls == []
    assert "was removed in the write that added it" in caplog.text


async def _without_finalizers(attributes: Attributes) -> Document:
    assert attributes.obj is not None
    return {**attributes.obj, "metadata": metadata_of(attributes.obj) | {"finalizers": []}}


async def test_a_clean_up_whose_answer_was_lost_is_repeated() -> None:
    stage = await Stage.make(cleans_up=True)
    await stage.run()
    await stage.change({"finalizers": [NAME, THEIRS]})
    await stage.delete()
    stage.bench.scene.secrets.fail(Unavailable("no answer"))
    await stage.run()

    await stage.run()

    assert stage.author.calls == ["reconcile", "clean up", "clean up"]
    assert (await stage.metadata())["finalizers"] == [THEIRS]


async def test_an_object_is_kept_until_its_clean_up_has_ended() -> None:
    stage = await Stage.make(cleans_up=True)
    await stage.run()
    await stage.delete()
    for outcome in (Unavailable("not now"), Requeue(after=3), PermanentError("by hand")):
        stage.author.outcome = outcome
        await stage.run()

    assert (await stage.metadata())["finalizers"] == [NAME]


def is_on(meta: OwnMeta) -> bool:
    return meta.label("on") == "yes"


async def test_an_object_that_is_deselected_before_the_watch_shows_it_waits_for_the_watch() -> (
    None
):
    stage = await Stage.make(cleans_up=True, selects=is_on)
    await stage.change({"labels": {"on": "yes"}})
    await stage.bench.refresh()
    await stage.change({"labels": {"on": None}})

    assert await stage.run() == 1.0

    assert stage.author.calls == []
    assert "finalizers" not in await stage.metadata()


async def test_a_requeue_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    stage = await Stage.make(outcome=Unavailable("no"))
    first = await stage.run()
    caplog.clear()

    stage.author.outcome = Requeue(after=timedelta(minutes=1))
    assert await stage.run() == 60
    assert [r.levelno for r in caplog.records] == [logging.INFO, logging.INFO]
    assert caplog.records[-1].__dict__["why"] == "requeue_after"

    stage.author.outcome = Unavailable("no")
    assert await stage.run() == first


async def test_a_function_that_returns_no_time_has_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = await Stage.make()
    stage.author.outcome = float("nan")

    assert await stage.run() == pytest.approx(0.075)
    assert "0s or more" in caplog.text


async def test_a_permanent_error_is_not_retried_until_the_object_changes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stage = await Stage.make(outcome=PermanentError("spec.size is not a number"))

    assert await stage.run() is None
    assert await stage.run() is None
    assert stage.author.calls == ["reconcile"]
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
        "reconcile failed, no retry until the object changes: default/one: "
        "spec.size is not a number"
    ]

    await stage.change({"annotations": {"by": "hand"}})
    await stage.bench.refresh()
    await stage.run()
    assert stage.author.calls == ["reconcile", "reconcile"]


async def test_a_change_of_a_child_does_not_retry_after_a_permanent_error() -> None:
    stage = await Stage.make(outcome=PermanentError("no"))
    await stage.run()

    await stage.bench.request().ensure(CHILD)
    await stage.run()

    assert stage.author.calls == ["reconcile"]
