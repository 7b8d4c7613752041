"""Free ports for processes that listen."""

import random
import socket
from itertools import islice
from typing import Final

CHOICE: Final = range(10_000, 32_000)
"""Below those that Linux gives to outgoing connections (net.ipv4.ip_local_port_range): one of
these would take a port between the moment in which it is chosen and that in which it is used."""


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback that are free now, all different.

    By chance, so that processes that choose side by side do not choose the same.
    """
    shuffled = random.sample(CHOICE, len(CHOICE))
    return list(islice(filter(_is_free, shuffled), count))


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
