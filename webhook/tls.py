"""The certificate of a server, replaceable while it runs."""

import ssl
from contextlib import suppress

from sharder.core.errors import ConfigError
from sharder.runtime.pem_file import readable


class ServerTls:
    """Serves the last good certificate; TLS 1.2 or newer, no client certificates.

    Each certificate has a context of its own.  If another certificate is loaded into a context in
    use, handshakes fail; if the load fails, all later handshakes fail.
    """

    def __init__(self, certificate: bytes, key: bytes) -> None:
        """Start with this certificate chain and its key, in PEM.

        Raises:
            ConfigError: they cannot be used.
        """
        self._loaded = (certificate, key)
        self.context = _tested_context(certificate, key)
        """The context of the next connection."""

    def replace(self, certificate: bytes, key: bytes) -> None:
        """Serve this certificate to the next connections; open ones stay.

        The current certificate is not loaded again, because this is called often.

        Raises:
            ConfigError: it cannot be used; the current certificate stays.
        """
        if (certificate, key) != self._loaded:
            self.context = _tested_context(certificate, key)
            self._loaded = (certificate, key)


def _tested_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    context = _context(certificate, key)
    try:
        _shake_hands(context)
    except ssl.SSLError as error:
        raise ConfigError(f"the certificate cannot be served: {error}") from error
    return context


def _context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        with readable(certificate + b"\n" + key) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        raise ConfigError(f"certificate and key cannot be loaded: {error}") from error
    return context


def _shake_hands(server: ssl.SSLContext) -> None:
    """Complete a handshake with ourselves, in memory."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    upward, downward = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(downward, upward), server.wrap_bio(upward, downward, server_side=True))
    for end in 2 * ends:
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    for end in ends:  # by now done, else this raises
        end.do_handshake()
