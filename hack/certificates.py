"""Certificates of a throw-away certificate authority, for servers on the loopback and clients.

The sharder's own certificates are made by `sharder.tls`; this authority is the cluster's.
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
"""Longer than a demo runs, short enough to be worthless when it leaks."""

CLOCK_SKEW = datetime.timedelta(hours=2)
"""How far back validity begins: there are tests with clocks that are an hour off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority that lives as long as this object: its key is never written."""

    def __init__(self, name: str) -> None:
        """Make a new key; `name` is the authority's common name."""
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
        """PEM, what others trust."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue_server(self, names: Sequence[str], address: IPv4Address) -> Identity:
        """Return an identity for a server that is called by any of `names` or by `address`."""
        alternatives = [*(x509.DNSName(n) for n in names), x509.IPAddress(address)]
        usage = ExtendedKeyUsageOID.SERVER_AUTH
        return self._issue(_name(names[0], ()), usage, x509.SubjectAlternativeName(alternatives))

    def issue_client(self, user: str, groups: Sequence[str] = ()) -> Identity:
        """Return an identity that the API server takes for `user` in `groups`.

        Source:
            Kubernetes, "Authenticating", X.509 client certificates: the common name is the user,
            each organization a group.
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
    """Return `key` as PEM without a password, readable as a public key too.

    Source:
        k8s.io/client-go/util/keyutil, ParsePublicKeysPEM: of private keys it takes
        "EC PRIVATE KEY", not PKCS #8.
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
