"""Addresses on which a server listens."""

from typing import NamedTuple


class Address(NamedTuple):
    """Where to listen; an empty host means all interfaces."""

    host: str
    port: int


def address_of(bind_address: str) -> Address | None:
    """Parse a bindAddress; return None for `0`, which turns the server off.

    Raises:
        ValueError: the address is neither `0` nor `host:port`; IPv6 hosts need brackets.
    """
    if bind_address == "0":
        return None
    host, colon, port = bind_address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    is_bracketed = host != bare and host == f"[{bare}]"
    is_number = port.isascii() and port.isdigit() and int(port) <= 65535
    if not colon or not is_number or (":" in bare) != is_bracketed:
        raise ValueError(f"{bind_address!r} is neither host:port nor 0")
    return Address(bare, int(port))
