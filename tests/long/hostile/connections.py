"""Connections that ask for nothing, or so slowly that it comes to the same."""

import asyncio
import errno
import socket
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from tests.long.hostile.wire import ADDRESS, trusting

PER_SECOND: Final = 3000
"""Connections opened, over all ports."""
BYTE_SECONDS: Final = 2.0
"""Between two bytes of a slow one: more often than any server waits for."""
TLS_PER_SECOND: Final = 200
TLS_AT_ONCE: Final = 4
HANDSHAKE_SECONDS: Final = 2.0
HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 400
"""How a TLS connection begins; on a port without TLS it is garbage, as slow as the rest."""
REQUEST: Final = b"GET /readyz HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 400


def hold_idle(ports: Sequence[int], each: int) -> list[socket.socket]:
    """Open so many connections to each port; those that were refused are left out."""
    return [c for number in range(each) for c in _open_paced(ports, number)]


async def hold_idle_tls(ports: Sequence[int], each: int) -> list[asyncio.StreamWriter]:
    """Open so many connections with TLS to each port; those that were refused are left out."""
    opened, tls, numbers = list[asyncio.StreamWriter](), trusting(), iter(range(each))
    ends = time.monotonic() + 2 * each * len(ports) / TLS_PER_SECOND

    async def work() -> None:
        for _ in numbers:
            for port in ports if time.monotonic() < ends else ():
                with suppress(OSError, TimeoutError):
                    async with asyncio.timeout(HANDSHAKE_SECONDS):
                        _, writer = await asyncio.open_connection(ADDRESS, port, ssl=tls)
                        opened.append(writer)
                await asyncio.sleep(1 / TLS_PER_SECOND * TLS_AT_ONCE)

    async with asyncio.TaskGroup() as group:
        for _ in range(TLS_AT_ONCE):
            group.create_task(work())
    return opened


async def hold_slow(ports: Sequence[int], each: int, *, until: float, done: Counter[str]) -> None:
    """Open so many to each port and send a byte on each now and then; count what was closed."""
    slow = [
        (port, number, connection)
        for number in range(each)
        for port, connection in zip(ports, _open_paced(ports, number), strict=False)
    ]
    done["slow opened"] = len(slow)
    step = 0
    while time.monotonic() < until:
        alive = []
        for port, number, connection in slow:
            text = HELLO if number % 2 else REQUEST
            try:
                connection.send(text[step % len(text) : step % len(text) + 1])
                alive.append((port, number, connection))
            except BlockingIOError:
                alive.append((port, number, connection))
            except OSError:
                done["slow closed by the server"] += 1
                connection.close()
        slow, step = alive, step + 1
        await asyncio.sleep(min(BYTE_SECONDS, max(0.0, until - time.monotonic())))
    for _, _, connection in slow:
        connection.close()


def _open_paced(ports: Sequence[int], number: int) -> list[socket.socket]:
    opened = []
    for port in ports:
        connection = socket.socket()
        connection.setblocking(False)
        with suppress(OSError):
            if connection.connect_ex((ADDRESS, port)) in {0, errno.EINPROGRESS}:
                opened.append(connection)
    time.sleep(len(ports) / PER_SECOND)
    return opened
