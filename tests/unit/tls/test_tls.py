"""Certificates that strict verifiers accept, and what is found wrong with others."""

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from sharder.core.errors import ConfigError
from sharder.tls.bundle import CertificateBundle, is_one_of, problem, token_of
from sharder.tls.issue import (
    AUTHORITY_VALIDITY,
    BACKDATED,
    KeyPair,
    issue_serving,
    make_authority,
    service_names,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
NAMES = service_names("sharder", "sharding-system")
ADDRESSES = ("10.0.0.1", "fd00::1")
AUTHORITY = make_authority(NOW)
OTHER_AUTHORITY = make_authority(NOW)
SECOND = timedelta(seconds=1)
VALIDITY = timedelta(days=365)


def issued(authority: KeyPair = AUTHORITY, validity: timedelta = VALIDITY) -> KeyPair:
    return issue_serving(authority, names=(*NAMES, *ADDRESSES), now=NOW, validity=validity)


def bundle_of(authority: KeyPair = AUTHORITY, serving: KeyPair | None = None) -> CertificateBundle:
    return CertificateBundle(authority=authority, serving=serving or issued(authority))


def with_authority(**parts: bytes) -> CertificateBundle:
    return replace(BUNDLE, authority=replace(AUTHORITY, **parts))


def serving_with(**parts: bytes) -> CertificateBundle:
    return replace(BUNDLE, serving=replace(BUNDLE.serving, **parts))


def parsed(certificate: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificate)


BUNDLE = bundle_of()


def test_openssl_verifies_the_certificate_strictly(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    authority = make_authority(now)
    pair = issue_serving(authority, names=NAMES, now=now, validity=VALIDITY)
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT

    assert shakes_hands(pair, context, NAMES[0], tmp_path)


def shakes_hands(pair: KeyPair, context: ssl.SSLContext, name: str, folder: Path) -> bool:
    """Verify as a client does, by a handshake in memory."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (folder / "pair.pem").write_bytes(pair.certificate + pair.key)
    server_side.load_cert_chain(folder / "pair.pem")
    upward, downward = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(upward, downward, server_side=True)
    client = context.wrap_bio(downward, upward, server_hostname=name)
    for end in (client, server, client):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client.getpeercert() is not None


def test_no_certificate_outlives_its_authority() -> None:
    pair = issued(validity=2 * AUTHORITY_VALIDITY)

    ends = [parsed(each).not_valid_after_utc for each in (pair.certificate, AUTHORITY.certificate)]
    assert ends[0] == ends[1]


def test_names_that_cannot_stand_in_a_certificate_are_an_error() -> None:
    with pytest.raises(ConfigError):
        issue_serving(AUTHORITY, names=["süd"], now=NOW, validity=VALIDITY)


@pytest.mark.parametrize(
    "authority",
    [
        KeyPair(certificate=AUTHORITY.certificate, key=OTHER_AUTHORITY.key),
        KeyPair(certificate=AUTHORITY.certificate, key=b""),
        KeyPair(certificate=b"", key=AUTHORITY.key),
    ],
)
def test_an_authority_that_does_not_fit_its_key_issues_nothing(authority: KeyPair) -> None:
    with pytest.raises(ConfigError, match="authority"):
        issued(authority)


def test_a_bundle_survives_its_secret() -> None:
    data = BUNDLE.to_secret_data()

    assert sorted(data) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    assert CertificateBundle.from_secret_data(data) == BUNDLE


@pytest.mark.parametrize("value", ["", "%%%", "ü", "YQ"])
def test_what_is_missing_or_damaged_in_a_secret_is_a_problem_of_the_bundle(value: str) -> None:
    data = BUNDLE.to_secret_data()
    for key in data:
        damaged = CertificateBundle.from_secret_data(data | {key: value})

        assert problem(damaged, NAMES, NOW)


def rsa_key() -> bytes:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def encrypted_key() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )


@pytest.mark.parametrize(
    ("bundle", "found"),
    [
        (with_authority(certificate=b"x"), "the authority's certificate or key"),
        (with_authority(key=b"x"), "the authority's certificate or key"),
        (with_authority(key=OTHER_AUTHORITY.key), "the authority's certificate or key"),
        (with_authority(key=rsa_key()), "the authority's certificate or key"),
        (serving_with(certificate=b"x"), "the serving certificate or its key is missing"),
        (serving_with(key=b"x"), "the serving certificate or its key is missing"),
        (serving_with(key=encrypted_key()), "the serving certificate or its key is missing"),
        (serving_with(key=issued().key), "the serving certificate and its key do not match"),
        (serving_with(key=rsa_key()), "the serving certificate and its key do not match"),
        (
            bundle_of(AUTHORITY, issued(OTHER_AUTHORITY)),
            "the serving certificate was not issued by the authority",
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_a_problem(
    bundle: CertificateBundle, found: str
) -> None:
    assert (problem(bundle, NAMES, NOW) or "").startswith(found)


@pytest.mark.parametrize(
    ("moment", "found"),
    [
        (NOW - BACKDATED - SECOND, "the authority's certificate is not valid before 2026-03-01T"),
        (NOW - BACKDATED, None),
        (NOW + VALIDITY - SECOND, None),
        (NOW + VALIDITY, "the serving certificate expired at 2027-03-01T12:00:00Z"),
        (NOW + AUTHORITY_VALIDITY, "the authority's certificate expired at 2036-02-27T12:00:00Z"),
    ],
)
def test_a_bundle_has_its_time(moment: datetime, found: str | None) -> None:
    if found is None:
        assert problem(BUNDLE, NAMES, moment) is None
    else:
        assert (problem(BUNDLE, NAMES, moment) or "").startswith(found)


# Tokens, which only API servers know


def test_a_token_can_be_a_segment_of_a_path_and_comes_from_the_key_alone() -> None:
    token = token_of(b"key")

    assert token == token_of(b"key") != token_of(b"another key")
    assert len(token) == 32
    assert set(token) <= set("0123456789abcdef")
    assert token_of(b"") == ""


def test_only_a_whole_token_is_one() -> None:
    token = token_of(b"key")

    assert is_one_of(token, ("other", token))
    assert not any(is_one_of(given, (token,)) for given in ("", token[:-1], token + "0", "é"))
    assert not is_one_of("", ())
