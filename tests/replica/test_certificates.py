"""Replicas that look after the certificates of the webhook in one Secret."""

import asyncio
from datetime import datetime, timedelta

import msgspec
import pytest
from typing_extensions import override

from sharder.cli.serve.certificates import find_certificate
from sharder.config.settings import Settings
from sharder.core.api.meta import Json
from sharder.core.names import ROTATE_ANNOTATION
from sharder.sdk.testing.requests import Call, Refused
from sharder.sdk.testing.requests import Client as User
from sharder.tls.bundle import CertificateBundle
from sharder.tls.facts import facts_of
from tests.replica.staged import staged
from tests.replica.world import SECRETS, World
from tests.stage.actors import SHARDER, Actor
from tests.stage.network import wall_time
from tests.stage.stage import eventually

SECRETS_PATH = "/api/v1/namespaces/sharding-system/secrets"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class Server(Actor):
    """A process that serves the certificate of the Secret, and keeps it."""

    def __init__(self, world: World, name: str, *, leads: bool = False) -> None:
        super().__init__(world, name, User(username=SHARDER))
        self.leads = leads
        self.used: CertificateBundle | None = None

    @override
    async def main(self) -> None:
        settings = Settings()
        source = await find_certificate(settings, self.client, self.clock, lambda: self.leads)
        self._use(source.first)
        await source.keep(self._use)

    def _use(self, bundle: CertificateBundle) -> None:
        self.used = bundle

    @property
    def certificate(self) -> bytes:
        """What it serves; empty as long as it has none."""
        return self.used.serving.certificate if self.used else b""


async def serve(world: World, *names: str, leads: str = "") -> list[Server]:
    """Start processes, and let them find their certificate."""
    servers = [Server(world, name, leads=name == leads) for name in names]
    for server in servers:
        server.start()
    await eventually(lambda: all(server.certificate for server in servers), within=30)
    return servers


async def prepared(world: World) -> None:
    """Create the namespaces."""
    await world.set_up(world.spec())


def kept(world: World) -> CertificateBundle:
    """Return what stands in the Secret."""
    (secret,) = world.objects(SECRETS).values()
    data = msgspec.convert(secret.tree.get("data") or {}, dict[str, str])
    return CertificateBundle.from_secret_data(data)


def name_of(world: World) -> str:
    """Return the name of the Secret."""
    (ref,) = world.objects(SECRETS)
    return ref.name


async def put(world: World, data: dict[str, Json], **annotations: Json) -> None:
    """Write into the Secret as a stranger does."""
    body: Json = {"data": data, "metadata": {"annotations": annotations}}
    await world.patch(f"{SECRETS_PATH}/{name_of(world)}", body)


def ends(certificate: bytes) -> datetime:
    """Return when a certificate ends."""
    return facts_of(certificate)[0].not_after


@staged
async def test_all_that_start_together_serve_one_certificate_and_keep_it(world: World) -> None:
    await prepared(world)
    servers = await serve(world, *(f"s{number}" for number in range(4)))
    assert len({server.certificate for server in servers}) == 1
    assert kept(world).serving.certificate == servers[0].certificate
    (late,) = await serve(world, "late")
    assert late.certificate == servers[0].certificate
    asked = sum(server.client.requests for server in servers)
    await asyncio.sleep(300)
    assert len({server.certificate for server in servers}) == 1
    assert sum(s.client.requests for s in servers) - asked <= len(servers) * 40, "the watch tells"


@pytest.mark.parametrize("watches", [True, False])
@staged
async def test_what_is_lost_or_spoilt_comes_back_as_it_is_served(
    world: World, watches: bool
) -> None:
    await prepared(world)
    if not watches:
        world.forbid("watch", SECRETS)
    (server,) = await serve(world, "s0")
    first = kept(world)
    for keys in (["tls.crt", "ca.crt"], ["tls.key"], ["tls.crt"], None):
        if keys is None:
            await world.write("DELETE", f"{SECRETS_PATH}/{name_of(world)}")
        else:
            await put(world, dict.fromkeys(keys))
        await asyncio.sleep(5)
        assert kept(world).serving == first.serving
        assert kept(world).authority == first.authority
    assert server.certificate == first.serving.certificate


@pytest.mark.parametrize("days", [61, 95, 400])
@staged
async def test_a_certificate_is_renewed_under_its_authority_in_time_or_late(
    world: World, days: int
) -> None:
    await prepared(world)
    (server,) = await serve(world, "s0")
    first = kept(world)
    await asyncio.sleep(100)
    server.clock.skew = timedelta(days=59)
    await asyncio.sleep(65)
    assert server.certificate == first.serving.certificate
    server.clock.skew = timedelta(days=days)
    await asyncio.sleep(65)
    renewed = kept(world)
    assert server.certificate == renewed.serving.certificate != first.serving.certificate
    assert renewed.authority == first.authority
    assert ends(renewed.serving.certificate) > wall_time() + server.clock.skew


@pytest.mark.parametrize("what", ["serving", "authority", "everything"])
@staged
async def test_a_request_is_carried_out_once_and_by_the_leader(world: World, what: str) -> None:
    await prepared(world)
    leader, follower = await serve(world, "leader", "follower", leads="leader")
    first = kept(world)
    await put(world, {}, **{ROTATE_ANNOTATION: what})
    await asyncio.sleep(6)
    assert (kept(world) == first) == (what == "everything")
    assert (kept(world).authority == first.authority) == (what != "authority")
    if what != "everything":
        (secret,) = world.objects(SECRETS).values()
        assert secret.meta.annotation(ROTATE_ANNOTATION) == ""
        second = kept(world)
        await asyncio.sleep(20)
        assert kept(world) == second
    assert leader.certificate == follower.certificate == kept(world).serving.certificate


@staged
async def test_a_secret_that_cannot_be_read_or_made_is_an_error_and_tried_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await prepared(world)
    (server,) = await serve(world, "s0")
    first = server.certificate

    async def refuse(call: Call) -> None:
        if "/secrets" in call.path:
            raise Refused(503, "busy")

    server.link.before.append(refuse)
    server.link.break_streams()
    await asyncio.sleep(120)
    warnings = [r for r in caplog.records if r.message.startswith("certificate check failed")]
    assert len(warnings) == 1, "said once"
    assert server.certificate == first
    server.link.before.remove(refuse)
    await put(world, {"tls.crt": None})
    await asyncio.sleep(40)
    assert kept(world).serving.certificate == first
    other = Server(world, "nowhere")

    async def nowhere(call: Call) -> None:
        if "/secrets" in call.path:
            raise Refused(404, "no such namespace")

    other.link.before.append(nowhere)
    other.start()
    await asyncio.sleep(5)
    assert isinstance(other.task, asyncio.Task)
    assert other.task.done()
    assert "no such namespace" in other.process.ended_with
