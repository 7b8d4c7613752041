"""The certificate authority of a test cluster: certificates of its API server and clients.

`sharder.tls` makes the certificates of the sharder.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALIDITY = datetime.timedelta(days=7)
"""Longer than a demo runs, and short enough that a leaked key is soon worthless."""

CLOCK_SKEW = datetime.timedelta(hours=2)
"""How long before now the validity begins: some tests set clocks an hour back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority that lives as long as this object: its key is never stored."""

    def __init__(self, name: str) -> None:
        """Generate a key; `name` is the common name of the authority."""
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name, ())
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate(self) -> bytes:
        """The CA certificate in PEM, for verification."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue_server(self, names: Sequence[str], address: IPv4Address) -> Identity:
        """Return an identity for a server with these DNS names and this address."""
        alternatives = [*(x509.DNSName(n) for n in names), x509.IPAddress(address)]
        usage = ExtendedKeyUsageOID.SERVER_AUTH
        return self._issue(_name(names[0], ()), usage, x509.SubjectAlternativeName(alternatives))

    def issue_client(self, user: str, groups: Sequence[str] = ()) -> Identity:
        """Return an identity that the API server authenticates as `user` in `groups`.

        Source:
            Kubernetes, "Authenticating", X.509 client certificates: the common name is the user,
            each organization is a group.
        """
        return self._issue(_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, *more: x509.ExtensionType
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        for extension in more:
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Identity(
            certificate=certificate.public_bytes(serialization.Encoding.PEM), key=encode_key(key)
        )


def encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return `key` in PEM without a password, in a form that is also read as a public key.

    Source:
        k8s.io/client-go/util/keyutil, ParsePublicKeysPEM: it accepts a private key as
        "EC PRIVATE KEY", not as PKCS #8.
    """
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + VALIDITY)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
