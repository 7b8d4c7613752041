"""Two replicas whose certificates are replaced, spoilt and lost: one chain, and no call fails."""

import asyncio
import base64
import json
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from hack.control_plane import ControlPlane
from hack.playground import SYSTEM, Playground, wait_until_ready
from sharder.cli.reports import CertificateRole, CertificatesReport
from sharder.kube.client import Client, connect
from sharder.tls.bundle import CertificateBundle, problem
from sharder.tls.facts import facts_of
from sharder.tls.rotation import Policy, new_bundle
from tests.e2e.rotations import REAL, REPLICAS, Load, shown
from tests.support.eventually import eventually

SHARDER = Path(sys.executable).with_name("sharder")
SECRET = "sharder-certificates"  # noqa: S105 - a name
CONFIG: Mapping[str, object] = {
    "leaderElection": {"leaseDuration": "5s", "renewDeadline": "3s", "retryPeriod": "1s"},
    "certificates": {"secretName": SECRET, "overlap": "5s"},
    "gracefulShutDown": "0s",
}
ADMISSIONS = 2500
"""Authorities are replaced until there were so many; four times as many in a long scene."""

CONVERGED_SECONDS = 25.0
"""In which all replicas serve one chain that is trusted, whatever happened to the Secret: they
read it every 2 s, and compare what is published every 30 s."""

STRANGER = new_bundle(
    Policy(names=("127.0.0.1",), validity=timedelta(days=9), rotate_before=timedelta(days=3)),
    datetime.now(UTC),
).to_secret_data()


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A new serving certificate and then new authorities, under load."""

    admissions: int
    load: Load
    before: CertificatesReport
    renewed: CertificatesReport
    rotated: list[CertificatesReport]
    """After each new authority."""


@pytest.fixture(scope="module")
def playground() -> Iterator[Playground]:
    with ControlPlane() as plane:
        playground = Playground(plane)
        playground.install()
        asyncio.run(start(playground))
        yield playground


@pytest.fixture(
    scope="module",
    params=[ADMISSIONS, pytest.param(4 * ADMISSIONS, marks=pytest.mark.long)],
    ids="{} admissions".format,
)
def story(request: pytest.FixtureRequest, playground: Playground) -> Story:
    return asyncio.run(tell(playground, request.param))


async def start(playground: Playground, *names: str) -> None:
    """Start replicas, by default both, at the same moment, and wait until they are ready."""
    for name in names or REPLICAS:
        playground.start_sharder(name, **CONFIG)
    for name in names or REPLICAS:
        await wait_until_ready(playground, name, within=60)


async def tell(playground: Playground, admissions: int) -> Story:
    async with administration(playground) as admin:
        await eventually(lambda: chain(playground, admin), within=30)
        load, before = Load(playground, admin), await certs(playground)
        async with load.running():
            await asyncio.sleep(1)
            await rotate(playground)
            renewed = await replaced(playground, before, CertificateRole.SERVING)
            await eventually(lambda: chain(playground, admin), within=30)
            rotated: list[CertificatesReport] = []
            while load.reviews.sent + load.creates.sent < admissions:
                last = rotated[-1] if rotated else renewed
                await rotate(playground, "--authority")
                rotated.append(await replaced(playground, last, CertificateRole.ISSUING))
                await eventually(lambda: chain(playground, admin), within=30)
                await asyncio.sleep(1)
    return Story(admissions=admissions, load=load, before=before, renewed=renewed, rotated=rotated)


def test_no_review_fails_while_certificates_are_replaced(story: Story) -> None:
    reviews = story.load.reviews
    print(f"\n{reviews.sent} reviews on new connections, {reviews.rate:.0f}/s")  # noqa: T201

    assert reviews.failures == []
    assert reviews.sent > story.admissions / 2


def test_no_create_fails_while_certificates_are_replaced(story: Story) -> None:
    creates = story.load.creates
    print(f"\n{creates.sent} creates, {creates.rate:.0f}/s")  # noqa: T201

    assert creates.failures == []
    assert creates.sent > story.admissions / 10


def test_a_new_serving_certificate_is_of_the_same_authority(story: Story) -> None:
    before, renewed = story.before, story.renewed

    assert one(renewed, CertificateRole.ISSUING) == one(before, CertificateRole.ISSUING)
    assert one(renewed, CertificateRole.SERVING) != one(before, CertificateRole.SERVING)


def test_old_and_new_authority_are_trusted_together_in_between(story: Story) -> None:
    authorities = [
        one(report, CertificateRole.ISSUING) for report in (story.before, *story.rotated)
    ]
    steps = [step for old, new in pairwise(authorities) for step in ({old, new}, {new})]

    assert story.load.published == [{authorities[0]}, *steps]


def test_nothing_is_left_of_a_rotation(story: Story) -> None:
    after = story.rotated[-1]

    assert [c.role for c in after.certificates] == [
        CertificateRole.SERVING,
        CertificateRole.ISSUING,
    ]
    assert (after.phase, after.requested, after.problem) == ("stable", None, None)


@pytest.mark.parametrize(
    ("what", "data"),
    [
        ("a corrupt certificate", {"tls.crt": "bm9uc2Vuc2U="}),
        ("a lost authority", {"ca.crt": None, "ca.key": None}),
        ("a pair that does not match", {"tls.key": STRANGER["tls.key"]}),
        ("everything lost", dict.fromkeys(STRANGER)),
    ],
)
async def test_a_spoilt_secret_is_repaired_and_one_chain_served(
    playground: Playground, what: str, data: Mapping[str, str | None]
) -> None:
    async with administration(playground) as admin:
        before = await eventually(lambda: chain(playground, admin), within=30)
        kubectl_patch(playground, data)

        after = await converged(playground, admin, what)

    assert after == before


async def test_an_unknown_authority_is_used_only_when_it_is_trusted(
    playground: Playground,
) -> None:
    async with administration(playground) as admin:
        before = await eventually(lambda: chain(playground, admin), within=30)
        kubectl_patch(playground, STRANGER)

        at_first = await converged(playground, admin, "a stranger's Secret")
        await eventually(lambda: settled(playground), within=60)
        after = await eventually(lambda: chain(playground, admin), within=CONVERGED_SECONDS)

    issuer = facts_of(base64.b64decode(STRANGER["ca.crt"]))[0].fingerprint
    assert at_first == before
    assert after != before
    assert one(await certs(playground), CertificateRole.ISSUING) == issuer


@asynccontextmanager
async def administration(playground: Playground) -> AsyncIterator[Client]:
    client = await connect(str(playground.plane.admin_kubeconfig))
    try:
        yield client
    finally:
        await client.close()


async def chain(playground: Playground, admin: Client) -> bytes:
    """Return the one certificate that the Secret holds, all show and the API server trusts."""
    path = f"/api/v1/namespaces/{SYSTEM}/secrets/{SECRET}"
    data = json.loads(await admin.request("GET", path))["data"]
    kept = CertificateBundle.from_secret_data(data)
    assert problem(kept, ("127.0.0.1",), datetime.now(UTC)) is None
    webhooks = json.loads(await admin.request("GET", REAL))["webhooks"]
    ca_bundle = webhooks[0]["clientConfig"]["caBundle"]
    served = {await shown(playground.webhook_port(name), ca_bundle) for name in REPLICAS}
    assert served == {ssl.PEM_cert_to_DER_cert(kept.certificate.decode())}
    return kept.certificate


async def converged(playground: Playground, admin: Client, what: str) -> bytes:
    """Return the one chain that is served in time after something happened; print the time."""
    began = time.monotonic()
    found = await eventually(lambda: chain(playground, admin), within=CONVERGED_SECONDS)
    print(f"\none chain {time.monotonic() - began:.1f} s after {what}")  # noqa: T201
    return found


async def replaced(
    playground: Playground, before: CertificatesReport, role: CertificateRole
) -> CertificatesReport:
    """Wait for another certificate in this role, and the end of the rotation."""

    async def is_replaced() -> CertificatesReport:
        now = await certs(playground)
        assert now.phase == "stable"
        assert one(now, role) != one(before, role)
        return now

    return await eventually(is_replaced, within=120)


async def settled(playground: Playground) -> bool:
    return await in_phase(playground, "stable")


async def in_phase(playground: Playground, phase: str) -> bool:
    return (await certs(playground)).phase == phase


async def certs(playground: Playground) -> CertificatesReport:
    """Return what `sharder certs` says."""
    printed = await sharder(playground, "certs", "-o", "json")
    return msgspec.json.decode(printed, type=CertificatesReport)


async def rotate(playground: Playground, *options: str) -> None:
    await sharder(playground, "certs", "rotate", *options)


async def sharder(playground: Playground, *arguments: str) -> bytes:
    kubeconfig = str(playground.plane.admin_kubeconfig)
    command = [str(SHARDER), *arguments, "--kubeconfig", kubeconfig]

    def run() -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(command, capture_output=True, check=False)

    done = await asyncio.to_thread(run)
    assert done.returncode == 0, done.stderr
    return done.stdout


def one(report: CertificatesReport, role: CertificateRole) -> str:
    """Return the fingerprint of the certificate in a role."""
    (fingerprint,) = (c.fingerprint for c in report.certificates if c.role is role)
    return fingerprint


def kubectl_patch(playground: Playground, data: Mapping[str, str | None]) -> None:
    patch = json.dumps({"data": data})
    playground.plane.kubectl("patch", "secret", SECRET, "-n", SYSTEM, "--type=merge", "-p", patch)
