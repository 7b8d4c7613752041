"""Facts about `sharder.kube.session`."""

import ssl
import tracemalloc
from contextlib import suppress
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from hack.certificates import Authority
from sharder.kube.session import RECORD_BYTES, Records


@pytest.fixture
def ends(tmp_path: Path) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends of a connection in memory: that which reads, and that which writes."""
    authority = Authority("unit tests")
    own = authority.issue_server(["here"], IPv4Address("127.0.0.1"))
    (tmp_path / "own.pem").write_bytes(own.certificate + own.key)
    reads = ssl.create_default_context(cadata=authority.certificate.decode())
    reads.sslobject_class = Records
    writes = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    writes.load_cert_chain(tmp_path / "own.pem")
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    pair = (
        reads.wrap_bio(down, up, server_hostname="here"),
        writes.wrap_bio(up, down, server_side=True),
    )
    for _ in range(2):
        for end in pair:
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return pair


def test_a_read_takes_no_more_memory_than_a_record_has(
    ends: tuple[ssl.SSLObject, ssl.SSLObject],
) -> None:
    reader, writer = ends
    writer.write(b"x" * 3 * RECORD_BYTES)

    tracemalloc.start()
    parts = [reader.read(256 * 1024) for _ in range(3)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert b"".join(parts) == b"x" * 3 * RECORD_BYTES
    assert peak < 5 * RECORD_BYTES
