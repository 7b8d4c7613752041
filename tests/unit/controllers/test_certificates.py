"""Facts about the certificates that all replicas share: made, kept, repaired."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from typing_extensions import override

from sharder.controllers.ca_trust import trusts
from sharder.controllers.certificates import (
    POLL_SECONDS,
    REST_SECONDS,
    RESTORE_SECONDS,
    Certificates,
)
from sharder.core.api.cluster import Secret
from sharder.core.api.meta import Json
from sharder.core.errors import ConfigError, Forbidden, NotFound, Unavailable
from sharder.core.names import ObjectRef
from sharder.tls import (
    AUTHORITY_VALIDITY,
    CertificateBundle,
    Phase,
    facts_of,
    fingerprints,
    new_bundle,
    problem,
)
from tests.support.certificates import POLICY, REF, SECRETS, Scene, Slow, Unwatched

NAMES = POLICY.names


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
def polled(scene: Scene) -> Scene:
    scene.watched = Unwatched(Secret, SECRETS)
    return scene


async def all_at_once(scene: Scene, starters: int) -> list[CertificateBundle]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(scene.replica().ensure()) for _ in range(starters)]
    return [task.result() for task in tasks]


@asynccontextmanager
async def keeping(
    ours: Certificates, use: Callable[[CertificateBundle], None]
) -> AsyncIterator[None]:
    """Let a replica look after the Secret meanwhile."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(ours.keep(use))
        yield
        task.cancel()


async def slept(scene: Scene) -> tuple[Certificates, CertificateBundle]:
    """A replica that has slept through a rotation, and what is in the Secret since."""
    asleep = scene.replica()
    await asleep.ensure()
    after = new_bundle(POLICY, scene.clock.now())
    await scene.put(after)
    return asleep, after


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.__dict__["error"] for r in caplog.records if r.levelname == "WARNING"]


async def test_they_are_made_where_there_are_none(scene: Scene) -> None:
    bundle = await scene.replica().ensure()

    assert problem(bundle, NAMES, scene.clock.now()) is None
    assert await scene.kept() == bundle


async def test_those_that_serve_are_kept(scene: Scene) -> None:
    first = await scene.replica().ensure()

    assert await scene.replica().ensure() == first


async def test_of_twenty_that_start_together_one_wins_and_all_return_the_same(
    scene: Scene,
) -> None:
    bundles = await all_at_once(scene, 20)

    assert len({bundle.certificate for bundle in bundles}) == 1
    assert len(scene.secrets._state.history) == 2  # created, and filled once


@pytest.mark.parametrize("data", [None, {}, {"tls.crt": "bm9uc2Vuc2U=", "ca.crt": "?"}])
async def test_a_secret_that_is_no_use_is_replaced_once(
    scene: Scene, data: dict[str, str] | None
) -> None:
    body: dict[str, Json] = {"metadata": {"name": REF.name}, "type": "Opaque"}
    await scene.secrets.create(REF.namespace, body | ({} if data is None else {"data": data}))

    bundles = await all_at_once(scene, 20)

    assert len({bundle.certificate for bundle in bundles}) == 1
    assert len(scene.secrets._state.history) == 2


async def test_a_secret_that_is_deleted_as_we_replace_it_is_made_anew(scene: Scene) -> None:
    meta = (await scene.secrets.create(REF.namespace, {"metadata": {"name": REF.name}})).metadata

    async with asyncio.TaskGroup() as group:
        task = group.create_task(scene.replica().ensure())
        await asyncio.sleep(0)
        await scene.secrets.delete(REF, uid=meta.uid, resource_version=meta.resource_version)

    assert await scene.kept() == task.result()


class Guarded(Slow):
    """May refuse to create."""

    refusal: Exception | None = None

    @override
    async def apply(self, ref: ObjectRef, body: Json) -> Secret:
        if self.refusal is not None:
            raise self.refusal
        return await super().apply(ref, body)


async def test_a_secret_that_cannot_be_made_is_an_error_and_not_tried_for_ever(
    scene: Scene,
) -> None:
    scene.secrets = secrets = Guarded(Secret, SECRETS)
    secrets.refusal = NotFound("no such namespace")

    with pytest.raises(NotFound, match="no such namespace"):
        async with asyncio.timeout(5):
            await scene.replica().ensure()


async def test_a_lost_secret_is_made_anew_with_what_we_serve(scene: Scene) -> None:
    ours = scene.replica()
    first = await ours.ensure()
    await scene.delete()

    assert await ours.ensure() == first
    assert await scene.kept() == first


async def test_a_serving_certificate_that_ends_soon_is_renewed_under_the_same_authority(
    scene: Scene,
) -> None:
    first = await scene.replica().ensure()

    await scene.clock.advance(timedelta(days=59).total_seconds())
    kept = await scene.replica().ensure()
    await scene.clock.advance(timedelta(days=2).total_seconds())
    renewed = await scene.replica().ensure()

    assert kept == first
    assert renewed.certificate != first.certificate
    assert (renewed.ca, renewed.ca_key) == (first.ca, first.ca_key)


@pytest.mark.parametrize("days", [8, 400])
async def test_what_ended_while_the_machine_was_suspended_is_renewed_at_the_next_look(
    scene: Scene, days: int
) -> None:
    ours, used = scene.replica(), list[CertificateBundle]()
    first = await ours.ensure()
    await scene.clock.advance(timedelta(days=59).total_seconds())

    async with keeping(ours, used.append):
        await scene.clock.advance(POLL_SECONDS)
        scene.clock.set_ahead(timedelta(days=days))
        await scene.clock.advance(REST_SECONDS)

    kept, renewed = used
    assert kept == first
    assert renewed.certificate != first.certificate
    assert renewed.ca == first.ca
    assert problem(renewed, NAMES, scene.clock.now()) is None


async def test_what_ends_with_its_authority_is_not_renewed_again_and_again(scene: Scene) -> None:
    await scene.replica().ensure()
    left = timedelta(days=20)
    await scene.clock.advance((AUTHORITY_VALIDITY - left).total_seconds())
    renewed = await scene.replica().ensure()

    await scene.clock.advance(POLL_SECONDS)

    assert facts_of(renewed.certificate)[0].not_after == facts_of(renewed.ca)[0].not_after
    assert await scene.replica().ensure() == renewed


@pytest.mark.parametrize("keys", [["tls.crt", "ca.crt"], ["ca.key"], ["tls.key"]])
async def test_a_secret_that_is_spoilt_gets_back_what_we_serve(
    scene: Scene, keys: list[str]
) -> None:
    ours = scene.replica()
    first = await ours.ensure()
    await scene.spoil(*keys)

    assert await ours.ensure() == first
    assert await scene.kept() == first


async def test_a_certificate_with_another_ones_key_is_replaced_by_what_we_serve(
    scene: Scene,
) -> None:
    ours = scene.replica()
    first = await ours.ensure()
    await scene.put(replace(first, key=new_bundle(POLICY, scene.clock.now()).key))

    assert await ours.ensure() == first


async def test_a_secret_that_is_spoilt_as_ours_ends_keeps_the_authority(scene: Scene) -> None:
    ours = scene.replica()
    first = await ours.ensure()
    await scene.clock.advance(timedelta(days=91).total_seconds())
    await scene.spoil("tls.crt", "ca.crt")

    renewed = await ours.ensure()

    assert renewed.ca == first.ca
    assert problem(renewed, NAMES, scene.clock.now()) is None


async def test_a_serving_certificate_that_is_lost_as_we_start_is_issued_by_the_same_authority(
    scene: Scene,
) -> None:
    first = await scene.replica().ensure()
    await scene.publish(first)
    await scene.spoil("tls.crt")

    renewed = await scene.replica().ensure()

    assert renewed.ca == first.ca


async def test_what_was_issued_serves_on_when_the_key_of_its_authority_is_lost(
    scene: Scene,
) -> None:
    first = await scene.replica().ensure()
    await scene.publish(first)
    await scene.spoil("ca.key")

    repaired = await scene.replica().ensure()

    assert repaired.certificate == first.certificate
    assert fingerprints(first.ca) < fingerprints(repaired.ca)
    assert problem(repaired, NAMES, scene.clock.now()) is None


async def test_an_authority_that_has_ended_is_replaced_at_once(scene: Scene) -> None:
    first = await scene.replica().ensure()
    await scene.clock.advance((AUTHORITY_VALIDITY + timedelta(days=10)).total_seconds())

    renewed = await scene.replica().ensure()

    assert fingerprints(renewed.ca).isdisjoint(fingerprints(first.ca))
    assert problem(renewed, NAMES, scene.clock.now()) is None


async def test_a_starter_leaves_a_lost_secret_to_those_who_have_what_was_in_it(
    scene: Scene,
) -> None:
    running = scene.replica()
    first = await running.ensure()
    await scene.publish(first)
    await scene.delete()

    async with asyncio.TaskGroup() as group:
        starting = group.create_task(scene.replica().ensure())
        await scene.clock.advance(POLL_SECONDS)
        await running.ensure()
        await scene.clock.advance(RESTORE_SECONDS)

    assert starting.result() == first


async def test_a_starter_leaves_a_strangers_secret_to_those_who_are_trusted(
    scene: Scene,
) -> None:
    running = scene.replica()
    first = await running.ensure()
    await scene.publish(first)
    await scene.put(new_bundle(POLICY, scene.clock.now()))

    async with asyncio.TaskGroup() as group:
        starting = group.create_task(scene.replica().ensure())
        await scene.clock.advance(POLL_SECONDS)
        await running.ensure()
        await scene.clock.advance(RESTORE_SECONDS)

    assert starting.result().serving == first.serving


async def test_a_starter_without_a_leader_makes_new_certificates(scene: Scene) -> None:
    first = await scene.replica().ensure()
    await scene.publish(first)
    await scene.delete()

    async with asyncio.TaskGroup() as group:
        starting = group.create_task(scene.replica().ensure())
        await scene.clock.advance(RESTORE_SECONDS)

    assert starting.result().ca != first.ca


async def test_a_starter_that_cannot_read_the_ca_bundles_does_not_wait(
    scene: Scene,
) -> None:
    scene.configurations.fail(*[Forbidden("cannot list")] * 9)

    bundle = await scene.replica().ensure()

    assert await scene.kept() == bundle


async def test_a_replica_that_cannot_read_the_ca_bundles_takes_the_certificates_it_finds(
    scene: Scene,
) -> None:
    asleep, after = await slept(scene)
    scene.configurations.fail(*[Forbidden("cannot list")] * 9)

    assert await asleep.ensure() == after


async def test_an_authority_that_a_stranger_put_there_is_introduced_first(scene: Scene) -> None:
    ours = scene.replica()
    first = await ours.ensure()
    await scene.publish(first)
    theirs = new_bundle(POLICY, scene.clock.now())
    await scene.put(theirs)

    served = await ours.ensure()

    assert served.serving == first.serving
    assert fingerprints(served.ca) == fingerprints(first.ca) | fingerprints(theirs.ca)
    assert await scene.phase() is Phase.INTRODUCING


async def test_a_replica_that_has_slept_through_a_rotation_takes_what_is_trusted(
    scene: Scene,
) -> None:
    asleep, after = await slept(scene)
    await scene.publish(after)

    assert await asleep.ensure() == after


async def test_a_repair_prefers_what_the_api_server_trusts(scene: Scene) -> None:
    asleep, after = await slept(scene)
    await scene.publish(after)
    await scene.spoil("tls.crt")

    repaired = await asleep.ensure()

    assert trusts(await scene.trusted(), repaired)


async def test_replicas_with_different_names_agree_on_one_certificate(scene: Scene) -> None:
    old, new = scene.replica(names=("old.svc",)), scene.replica(names=("new.svc", "10.0.0.1"))
    await old.ensure()

    of_both = await new.ensure()

    assert await old.ensure() == of_both
    assert set(facts_of(of_both.certificate)[0].names) == {"old.svc", "new.svc", "10.0.0.1"}


async def test_the_secret_is_looked_after_and_errors_are_tried_again(polled: Scene) -> None:
    ours = polled.replica()
    first = await ours.ensure()
    used = list[CertificateBundle]()

    async with keeping(ours, used.append):
        polled.secrets.fail(Unavailable("busy"))
        await polled.clock.advance(POLL_SECONDS)
        at_first = list(used)
        await polled.clock.advance(POLL_SECONDS)

    assert (at_first, used) == ([], [first])


async def test_certificates_that_cannot_be_used_are_tried_again(polled: Scene) -> None:
    ours, tried = polled.replica(), list[CertificateBundle]()
    await ours.ensure()

    def use(bundle: CertificateBundle) -> None:
        tried.append(bundle)
        if len(tried) == 1:
            raise ConfigError("the certificate does not match its key")

    async with keeping(ours, use):
        await polled.clock.advance(2 * POLL_SECONDS)

    assert len(tried) == 2


async def test_an_error_that_is_over_and_comes_again_is_reported_again(
    polled: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    ours = polled.replica()
    await ours.ensure()

    async with keeping(ours, lambda _: None):
        for _ in range(2):
            polled.secrets.fail(Unavailable("busy"))
            await polled.clock.advance(2 * POLL_SECONDS)

    assert warned(caplog) == ["busy", "busy"]


async def test_an_error_that_stays_is_reported_once(
    polled: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    ours = polled.replica()
    await ours.ensure()

    async with keeping(ours, lambda _: None):
        polled.secrets.fail(Unavailable("busy"), Unavailable("busy"), Unavailable("gone"))
        await polled.clock.advance(4 * POLL_SECONDS)

    assert warned(caplog) == ["busy", "gone"]


class Read(Slow):
    """Counts how often the Secret is read."""

    reads = 0

    @override
    async def get(self, ref: ObjectRef) -> Secret:
        self.reads += 1
        return await super().get(ref)


async def test_a_secret_that_is_watched_is_read_once_a_minute_and_when_it_has_changed() -> None:
    scene, used = Scene(), list[CertificateBundle]()
    scene.secrets = store = Read(Secret, SECRETS)
    ours = scene.replica()
    first = await ours.ensure()

    async with keeping(ours, used.append):
        await scene.clock.advance(POLL_SECONDS)
        before = store.reads
        await scene.clock.advance(10 * REST_SECONDS)
        resting = store.reads - before
        await scene.delete()
        await scene.clock.advance(POLL_SECONDS)
        restored = await scene.kept()

    assert resting <= 10
    assert restored == first


async def test_a_secret_that_nobody_may_watch_is_read_in_every_period() -> None:
    scene = Scene()
    scene.secrets, scene.watched = store, _ = Read(Secret, SECRETS), Unwatched(Secret, SECRETS)
    ours = scene.replica()
    await ours.ensure()

    async with keeping(ours, lambda _: None):
        before = store.reads
        await scene.clock.advance(30 * POLL_SECONDS)

    assert store.reads - before == 30
