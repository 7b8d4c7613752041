"""Facts about what `sharder certs` and `check` show of the Secret of the certificates."""

import base64
from datetime import timedelta

from hack.certificates import Authority
from sharder.cli.certs import report_of
from sharder.core.api.cluster import Secret
from sharder.core.api.meta import ObjectMeta
from sharder.tls.rotation import Policy, new_bundle
from tests.support.values import NOW

POLICY = Policy(
    names=("webhook.sharding-system.svc",),
    validity=timedelta(days=90),
    rotate_before=timedelta(days=30),
)
BUNDLE = new_bundle(POLICY, NOW)
LATER = NOW + timedelta(days=80, hours=1)


def secret(data: dict[str, str]) -> Secret:
    return Secret(metadata=ObjectMeta(name="certificates", namespace="sharding-system"), data=data)


def test_the_roles_of_our_certificates_are_shown() -> None:
    found = report_of(secret(BUNDLE.to_secret_data()), LATER)

    assert [each.role for each in found.certificates] == ["serving", "issuing"]
    assert (found.foreign, found.problem) == (False, None)
    assert next(each.days_left for each in found.certificates) == 9


def test_a_certificate_of_another_issuer_is_reported_as_theirs() -> None:
    authority = Authority("cert-manager")
    pair = authority.issue("sharder.sharding-system.svc")
    parts = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}
    data = {name: base64.b64encode(part).decode() for name, part in parts.items()}

    found = report_of(secret(data), LATER)

    assert (found.foreign, found.problem) == (True, None)
    assert [each.role for each in found.certificates] == ["serving"]
