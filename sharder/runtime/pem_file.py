"""Certificates and keys as files, which OpenSSL requires."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def readable(pem: bytes) -> Iterator[str]:
    """Yield a path to the bytes, in memory if the system supports it.

    A disk would keep the key, and the container's file system is read-only.
    """
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("certificate"), "wb") as file:
            file.write(pem)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(pem)
            file.flush()
            yield file.name
