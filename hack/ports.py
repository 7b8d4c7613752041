"""Free ports on the loopback for servers."""

import random
import socket
from itertools import islice
from typing import Final

CHOICE: Final = range(10_000, 32_000)
"""The ports to choose from, below the default net.ipv4.ip_local_port_range of Linux.

An outgoing connection gets a port of that range, also a port that a server is about to use.
"""


def free_ports(count: int) -> list[int]:
    """Return `count` different ports of the loopback that are free now, or fewer.

    The choice is random, so that concurrent processes hardly choose the same port.
    """
    shuffled = random.sample(CHOICE, len(CHOICE))
    return list(islice(filter(_is_free, shuffled), count))


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
