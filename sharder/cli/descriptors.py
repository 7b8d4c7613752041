"""File descriptors: every connection takes one, of strangers and of our own calls alike."""

import resource
from contextlib import suppress


def raise_limit() -> int:
    """Raise the limit of this process as far as it may; return it.

    Container runtimes often begin with 1,024, for the sake of programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft


def connections_of(wanted: int, limit: int) -> int:
    """Return how many connections a port may have: at most a fourth of all descriptors."""
    unlimited = limit == resource.RLIM_INFINITY
    return wanted if unlimited else max(1, min(wanted, limit // 4))
