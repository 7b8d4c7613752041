"""The certificate authority of a test cluster: certificates of its API server and clients.

`sharder.tls` makes the certificates of the sharder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

import trustme


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A certificate and its private key, both in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority that lives as long as this object: its key is never stored."""

    def __init__(self, name: str) -> None:
        """Generate a key for the authority of this organization."""
        self._authority = trustme.CA(organization_name=name)

    @property
    def certificate(self) -> bytes:
        """The CA certificate in PEM, for verification."""
        return self._authority.cert_pem.bytes()

    def issue_server(self, names: Sequence[str], address: IPv4Address) -> Identity:
        """Return an identity for a server with these DNS names and this address."""
        return _identity(self._authority.issue_cert(*names, str(address), common_name=names[0]))

    def issue_client(self, user: str, group: str = "") -> Identity:
        """Return an identity that the API server authenticates as `user`, by default in no group.

        Source:
            Kubernetes, "Authenticating", X.509 client certificates: the common name is the user,
            the organization is a group.
        """
        # Go refuses a certificate without any subject alternative name.
        issued = self._authority.issue_cert(
            "client.invalid", common_name=user, organization_name=group or "nobody"
        )
        return _identity(issued)


def _identity(issued: trustme.LeafCert) -> Identity:
    (certificate,) = issued.cert_chain_pems
    return Identity(certificate=certificate.bytes(), key=issued.private_key_pem.bytes())
