"""HTTP/1.1 over one connection, as cheap as it gets: attackers must not need the CPU."""

import asyncio
import base64
import json
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

ADDRESS = "127.0.0.1"
ANSWER_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Where to connect."""

    port: int
    tls: ssl.SSLContext | None


class Wire:
    """A connection that is opened when it is needed, and again after it broke."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json"
    ) -> int:
        """Send a request and return the status of the answer; 0 if there was none."""
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {ADDRESS}\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._exchange(head.encode(), body)
        except (OSError, TimeoutError, ValueError, EOFError):
            self.close()
            return 0

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _exchange(self, head: bytes, body: bytes) -> int:
        if self._streams is None:
            self._streams = await asyncio.open_connection(
                ADDRESS, self._peer.port, ssl=self._peer.tls, limit=1 << 22
            )
        reader, writer = self._streams
        writer.writelines((head, body))
        await writer.drain()
        answer = await reader.readuntil(b"\r\n\r\n")
        fields = answer.lower().split(b"\r\n")
        lengths = [int(f[15:]) for f in fields if f.startswith(b"content-length:")]
        if lengths:
            await reader.readexactly(lengths[0])
        elif b"transfer-encoding: chunked" in fields:
            await _skip_chunks(reader)
        if not lengths or b"connection: close" in fields:
            self.close()
        return int(fields[0].split()[1])


async def _skip_chunks(reader: asyncio.StreamReader) -> None:
    while size := int(await reader.readline(), 16):
        await reader.readexactly(size + 2)
    await reader.readline()


def trusting() -> ssl.SSLContext:
    """Return TLS that believes every server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def apiserver(kubeconfig: Path) -> Peer:
    """Return the API server of a kubeconfig, with the client certificate that it has."""
    document = json.loads(kubeconfig.read_text())
    user = document["users"][0]["user"]
    context = trusting()
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        for field in ("client-certificate-data", "client-key-data"):
            file.write(base64.b64decode(user[field]))
        file.flush()
        context.load_cert_chain(file.name)
    server: str = document["clusters"][0]["cluster"]["server"]
    return Peer(port=int(server.rpartition(":")[2]), tls=context)
