"""Users get one warning about each invalid annotation."""

from asyncio import TaskGroup
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from sharder.controllers import annotation_warnings as module
from sharder.controllers.annotation_warnings import MALFORMED, AnnotationWarnings
from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.names import LOAD_ANNOTATION
from sharder.sdk.testing.fake_clock import FakeClock
from tests.support.fakes import FakeRecorder
from tests.support.values import WIDGETS, obj, snapshot


def mistaken(load: str, name: str = "w") -> PartialObject:
    there = obj(WIDGETS, name)
    annotations = {LOAD_ANNOTATION: load}
    meta = msgspec.structs.replace(there.metadata, annotations=annotations, uid=name)
    return msgspec.structs.replace(there, metadata=meta)


@asynccontextmanager
async def telling() -> AsyncIterator[tuple[AnnotationWarnings, FakeRecorder, FakeClock]]:
    clock, recorder = FakeClock(), FakeRecorder()
    annotation_warnings = AnnotationWarnings(recorder, clock)
    async with TaskGroup() as group:
        task = group.create_task(annotation_warnings.report())
        try:
            yield annotation_warnings, recorder, clock
        finally:
            task.cancel()


async def test_an_invalid_annotation_is_reported_once_however_often_it_is_seen() -> None:
    async with telling() as (annotation_warnings, recorder, clock):
        for _ in range(3):
            annotation_warnings.check(snapshot(), mistaken("nonsense"))
            await clock.advance(2)

    assert [(about.name, reason) for about, reason, _ in recorder.warnings] == [("w", MALFORMED)]
    assert LOAD_ANNOTATION in recorder.warnings[0][2]


async def test_a_second_invalid_annotation_is_reported_and_so_is_one_that_comes_back() -> None:
    async with telling() as (annotation_warnings, recorder, clock):
        for load in ("nonsense", "more=nonsense", "cpu=1", "nonsense"):
            annotation_warnings.check(snapshot(), mistaken(load))
            await clock.advance(2)

    assert len(recorder.warnings) == 3


async def test_an_annotation_that_is_fixed_before_the_report_is_not_reported() -> None:
    async with telling() as (annotation_warnings, recorder, clock):
        annotation_warnings.check(snapshot(), mistaken("nonsense"))
        annotation_warnings.check(snapshot(), mistaken("cpu=1"))
        await clock.advance(2)

    assert recorder.warnings == []


async def test_nothing_that_may_be_large_is_kept_of_an_object() -> None:
    annotation_warnings = AnnotationWarnings(FakeRecorder(), FakeClock())
    there = mistaken("x" * 200_000)
    labels = {str(number): "x" * 60 for number in range(1000)}
    meta = msgspec.structs.replace(there.metadata, labels=labels)

    annotation_warnings.check(snapshot(), msgspec.structs.replace(there, metadata=meta))

    ((kept, text),) = annotation_warnings._unreported.values()
    assert (kept.api_version, kept.kind) == (there.api_version, there.kind)
    identity = ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)
    assert kept.metadata == identity
    assert len(text) <= 1.1 * module.MAX_LENGTH


async def test_memory_is_bounded_while_nothing_can_be_reported() -> None:
    annotation_warnings, ring = AnnotationWarnings(FakeRecorder(), FakeClock()), snapshot()

    for number in range(module.MAX_UNREPORTED + 10):
        annotation_warnings.check(ring, mistaken("nonsense", f"w-{number}"))

    assert (
        len(annotation_warnings._known)
        == len(annotation_warnings._unreported)
        == module.MAX_UNREPORTED
    )


async def test_more_than_can_be_reported_at_a_time_are_reported_when_they_are_seen_again() -> None:
    many, ring = module.MAX_UNREPORTED + 10, snapshot()

    async with telling() as (annotation_warnings, recorder, clock):
        for _ in range(3):
            for number in range(many):
                annotation_warnings.check(ring, mistaken("nonsense", f"w-{number}"))
            await clock.advance(2)

    assert len(recorder.warnings) == many


async def fill(annotation_warnings: AnnotationWarnings, clock: FakeClock) -> None:
    """Let as many invalid annotations be reported as are remembered."""
    ring = snapshot()
    for number in range(module.MAX_REMEMBERED):
        annotation_warnings.check(ring, mistaken("nonsense", f"w-{number}"))
        if number % module.MAX_UNREPORTED == module.MAX_UNREPORTED - 1:
            await clock.advance(2)


async def test_more_than_can_be_remembered_are_not_reported_again_and_again() -> None:
    async with telling() as (annotation_warnings, recorder, clock):
        for _ in range(2):
            annotation_warnings.check(snapshot(), mistaken("nonsense", "one-more"))
            await fill(annotation_warnings, clock)

    assert len(recorder.warnings) == module.MAX_REMEMBERED


async def test_what_is_gone_makes_room_for_another() -> None:
    async with telling() as (annotation_warnings, recorder, clock):
        await fill(annotation_warnings, clock)
        await clock.advance(module.FORGET_SECONDS)
        annotation_warnings.check(snapshot(), mistaken("nonsense", "one-more"))
        await clock.advance(2)

    assert recorder.warnings[-1][0].name == "one-more"
    assert len(annotation_warnings._known) == module.MAX_REMEMBERED
