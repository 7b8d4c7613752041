"""File descriptors as a container has them: few at first, more for who asks."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def few_files(soft: int) -> Iterator[None]:
    """Let processes that start in the block begin with so many; the hard limit stays."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))
