"""Facts about the certificates that all replicas share."""

import asyncio
from datetime import timedelta

import pytest
from typing_extensions import override

from sharder.api.meta import Json
from sharder.api.secret import Secret
from sharder.controllers.certificates import LOOK_SECONDS, Certificates
from sharder.errors import Forbidden, NotFound, Unavailable
from sharder.names import GroupResource, ObjectRef
from sharder.ports import Resource
from sharder.tls import AUTHORITY_VALIDITY, CertificateBundle, problem
from tests.support.fake_clock import FakeClock
from tests.support.fakes import FakeStore

REF = ObjectRef("sharding-system", "webhook-certificates")
NAMES = ("webhook.sharding-system.svc", "127.0.0.1")
SECRETS = Resource(id=GroupResource("", "secrets"), version="v1", kind="Secret", namespaced=True)


class Slow(FakeStore[Secret]):
    """Lets others run before each answer, so that all look before one writes."""

    @override
    async def get(self, ref: ObjectRef) -> Secret:
        try:
            return await super().get(ref)
        finally:
            await asyncio.sleep(0)


def store() -> Slow:
    return Slow(Secret, SECRETS)


def certificates(of: FakeStore[Secret], clock: FakeClock | None = None) -> Certificates:
    return Certificates(
        read=of,
        write=of,
        ref=REF,
        names=NAMES,
        validity=timedelta(days=90),
        rotate_before=timedelta(days=30),
        clock=clock or FakeClock(),
    )


async def all_at_once(of: FakeStore[Secret], starters: int) -> list[CertificateBundle]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(certificates(of).ensure()) for _ in range(starters)]
    return [task.result() for task in tasks]


async def test_they_are_made_where_there_are_none() -> None:
    secrets, clock = store(), FakeClock()

    bundle = await certificates(secrets, clock).ensure()

    assert problem(bundle, NAMES, clock.now()) is None
    data = (await secrets.get(REF)).data or {}
    assert CertificateBundle.from_secret_data(data) == bundle


async def test_those_that_serve_are_kept() -> None:
    secrets = store()
    first = await certificates(secrets).ensure()

    assert await certificates(secrets).ensure() == first


async def test_of_twenty_that_start_together_one_wins_and_all_return_the_same() -> None:
    secrets = store()

    bundles = await all_at_once(secrets, 20)

    assert len({bundle.certificate for bundle in bundles}) == 1
    assert len(secrets._state.history) == 1


@pytest.mark.parametrize("data", [None, {}, {"tls.crt": "bm9uc2Vuc2U=", "ca.crt": "?"}])
async def test_a_secret_that_is_no_use_is_replaced_once(data: dict[str, str] | None) -> None:
    secrets = store()
    body: dict[str, Json] = {"metadata": {"name": REF.name}, "type": "Opaque"}
    await secrets.create(REF.namespace, body | ({} if data is None else {"data": data}))

    bundles = await all_at_once(secrets, 20)

    assert len({bundle.certificate for bundle in bundles}) == 1
    assert len(secrets._state.history) == 2


async def test_a_secret_that_is_deleted_as_we_replace_it_is_made_anew() -> None:
    secrets = store()
    created = await secrets.create(REF.namespace, {"metadata": {"name": REF.name}})
    meta = created.metadata

    async with asyncio.TaskGroup() as group:
        task = group.create_task(certificates(secrets).ensure())
        await asyncio.sleep(0)
        await secrets.delete(REF, uid=meta.uid, resource_version=meta.resource_version)

    data = (await secrets.get(REF)).data or {}
    assert CertificateBundle.from_secret_data(data) == task.result()


@pytest.mark.parametrize("error", [Forbidden("cannot create"), NotFound("no such namespace")])
async def test_a_secret_that_cannot_be_made_is_an_error_and_not_tried_for_ever(
    error: Exception,
) -> None:
    class Refusing(Slow):
        @override
        async def create(self, namespace: str, body: Json) -> Secret:
            raise error

    with pytest.raises(type(error), match=str(error)):
        async with asyncio.timeout(5):
            await certificates(Refusing(Secret, SECRETS)).ensure()


async def test_a_serving_certificate_that_ends_soon_is_renewed_under_the_same_authority() -> None:
    secrets, clock = store(), FakeClock()
    first = await certificates(secrets, clock).ensure()

    await clock.advance(timedelta(days=59).total_seconds())
    kept = await certificates(secrets, clock).ensure()
    await clock.advance(timedelta(days=2).total_seconds())
    renewed = await certificates(secrets, clock).ensure()

    assert kept == first
    assert renewed.certificate != first.certificate
    assert (renewed.ca, renewed.ca_key) == (first.ca, first.ca_key)


async def test_a_secret_that_is_spoilt_gets_back_what_we_serve() -> None:
    secrets = store()
    ours = certificates(secrets)
    first = await ours.ensure()
    await secrets.patch(REF, {"data": {"tls.crt": None, "ca.crt": None}})

    assert await ours.ensure() == first
    data = (await secrets.get(REF)).data or {}
    assert CertificateBundle.from_secret_data(data) == first


async def test_a_secret_that_is_spoilt_as_ours_ends_keeps_the_authority() -> None:
    secrets, clock = store(), FakeClock()
    ours = certificates(secrets, clock)
    first = await ours.ensure()
    await clock.advance(timedelta(days=70).total_seconds())
    await secrets.patch(REF, {"data": {"tls.crt": None, "ca.crt": None}})

    renewed = await ours.ensure()

    assert renewed.ca == first.ca
    assert problem(renewed, NAMES, clock.now()) is None


@pytest.mark.parametrize("left", [timedelta(days=10), -timedelta(days=10)])
async def test_an_authority_that_ends_soon_or_has_ended_is_replaced(left: timedelta) -> None:
    secrets, clock = store(), FakeClock()
    first = await certificates(secrets, clock).ensure()
    await clock.advance((AUTHORITY_VALIDITY - left).total_seconds())

    renewed = await certificates(secrets, clock).ensure()

    assert renewed.ca != first.ca
    assert problem(renewed, NAMES, clock.now()) is None


async def test_the_secret_is_looked_after_and_errors_are_tried_again() -> None:
    secrets, clock = store(), FakeClock()
    ours = certificates(secrets, clock)
    first = await ours.ensure()
    used = list[CertificateBundle]()

    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(ours.keep(used.append))
        secrets.fail(Unavailable("busy"))
        await clock.advance(LOOK_SECONDS)
        at_first = list(used)
        await clock.advance(LOOK_SECONDS)
        keeping.cancel()

    assert (at_first, used) == ([], [first])
