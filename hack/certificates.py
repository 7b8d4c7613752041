"""The certificate authority of a test cluster: certificates of its API server and clients.

`sharder.tls` makes the certificates of the sharder.
"""

import trustme

from sharder.tls.issue import KeyPair


class Authority:
    """A certificate authority that lives as long as this object: its key is never stored."""

    def __init__(self, name: str) -> None:
        """Generate a key for the authority of this organization."""
        self._authority = trustme.CA(organization_name=name)

    @property
    def certificate(self) -> bytes:
        """The CA certificate in PEM, for verification."""
        return self._authority.cert_pem.bytes()

    def issue(self, *names: str, user: str = "", group: str = "nobody") -> KeyPair:
        """Return an identity for a server with these DNS names and addresses, or for a client.

        The API server authenticates the client as `user`, in `group`.

        Source:
            Kubernetes, "Authenticating", X.509 client certificates: the common name is the user,
            the organization is a group.
        """
        # Go refuses a certificate without any subject alternative name.
        issued = self._authority.issue_cert(
            *(names or ("client.invalid",)), common_name=user or names[0], organization_name=group
        )
        (certificate,) = issued.cert_chain_pems
        return KeyPair(certificate=certificate.bytes(), key=issued.private_key_pem.bytes())
