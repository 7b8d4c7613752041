"""Facts about `sharder.cli.certs`: reports on certificates, and requests for new ones."""

import base64
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from sharder.cli.certs import rotate, show
from sharder.cli.cluster import Cluster
from sharder.cli.reports import CertificateRole, CertificatesReport
from sharder.core.api.meta import Json
from sharder.core.errors import ConfigError
from sharder.tls.bundle import CertificateBundle
from sharder.tls.facts import facts_of
from sharder.tls.rotation import Request, Step, carry_out, new_bundle
from tests.support.certificates import POLICY, REF, Scene
from tests.support.read_cluster import ReadCluster
from tests.support.values import NOW

BUNDLE = new_bundle(POLICY, NOW)
INTRODUCING = carry_out(Step.INTRODUCE, BUNDLE, POLICY, NOW)
RETIRING = carry_out(Step.SWITCH, INTRODUCING, POLICY, NOW)
LATER = NOW + timedelta(days=80, hours=1)
SERVING, ISSUING = CertificateRole.SERVING, CertificateRole.ISSUING


async def filled(bundle: CertificateBundle | None = BUNDLE) -> Scene:
    scene = Scene()
    await scene.secrets.create(REF.namespace, {"metadata": {"name": REF.name}})
    if bundle is not None:
        await scene.put(bundle)
    return scene


def cluster_of(scene: Scene) -> Cluster:
    return replace(ReadCluster().cluster, secrets=scene.secrets, now=LATER)


async def told(scene: Scene) -> CertificatesReport:
    return await show(cluster_of(scene), ref=REF)


async def test_a_certificate_is_reported_with_names_times_and_fingerprint() -> None:
    report = await told(await filled())

    serving = report.certificates[0]
    assert (report.secret, report.phase, report.problem) == (str(REF), "stable", None)
    assert (serving.role, serving.subject) == (SERVING, "CN=sharder webhook")
    assert serving.names == POLICY.names
    assert (serving.not_before, serving.not_after) == (
        "2026-03-01T11:00:00Z",
        "2026-05-30T12:00:00Z",
    )
    assert serving.days_left == 9
    assert serving.fingerprint == facts_of(BUNDLE.certificate)[0].fingerprint
    assert len(bytes.fromhex(serving.fingerprint.replace(":", ""))) == 32


@pytest.mark.parametrize(
    ("bundle", "phase", "roles"),
    [
        (BUNDLE, "stable", [SERVING, ISSUING]),
        (INTRODUCING, "introducing", [SERVING, ISSUING, CertificateRole.NEXT]),
        (RETIRING, "retiring", [SERVING, CertificateRole.RETIRING, ISSUING]),
    ],
)
async def test_the_phase_of_a_rotation_is_reported(
    bundle: CertificateBundle, phase: str, roles: list[CertificateRole]
) -> None:
    report = await told(await filled(bundle))

    assert report.phase == phase
    assert [certificate.role for certificate in report.certificates] == roles


@pytest.mark.parametrize("request_", Request)
async def test_a_rotation_is_asked_for_by_an_annotation(request_: Request) -> None:
    scene = await filled()

    said = await rotate(cluster_of(scene), ref=REF, request=request_)

    assert await scene.asked() == request_
    assert request_ in said


@pytest.mark.parametrize("bundle", [INTRODUCING, RETIRING])
async def test_an_authority_that_is_being_replaced_is_not_asked_for_again(
    bundle: CertificateBundle,
) -> None:
    scene = await filled(bundle)

    with pytest.raises(ConfigError, match="is already being replaced"):
        await rotate(cluster_of(scene), ref=REF, request=Request.AUTHORITY)

    assert await scene.asked() == ""


FOREIGN_NAMES = ("sharder.sharding-system.svc",)


def foreign(ends: datetime) -> dict[str, Json]:
    """Return what cert-manager or `kubectl create secret tls` puts into a Secret."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "theirs")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(ends)
        .add_extension(
            x509.SubjectAlternativeName([*map(x509.DNSName, FOREIGN_NAMES)]), critical=False
        )
        .sign(key, SHA256())
        .public_bytes(Encoding.PEM)
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    parts = {"tls.crt": certificate, "tls.key": private, "ca.crt": certificate}
    return {name: base64.b64encode(part).decode() for name, part in parts.items()}


async def of_others(ends: datetime = LATER + timedelta(days=30)) -> Scene:
    scene = await filled(None)
    await scene.secrets.patch(REF, {"data": foreign(ends)})
    return scene


async def test_a_certificate_that_another_client_made_is_reported_as_theirs() -> None:
    report = await told(await of_others())

    assert (report.foreign, report.phase, report.problem) == (True, None, None)
    assert [(c.role, c.subject, c.names, c.days_left) for c in report.certificates] == [
        (SERVING, "CN=theirs", FOREIGN_NAMES, 30)
    ]


async def test_certificates_of_another_issuer_are_not_rotated() -> None:
    scene = await of_others()

    with pytest.raises(ConfigError, match="was not issued by sharder: renew it"):
        await rotate(cluster_of(scene), ref=REF, request=Request.SERVING)

    assert await scene.asked() == ""
