"""Compute in another process what would hold up the event loop for seconds.

A thread does not help: while it sorts 100,000 objects, answers to the API server take seconds.
"""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final, TypeAlias

from sharder.core.errors import SharderError

Compute: TypeAlias = Callable[[bytes], Coroutine[None, None, bytes]]
"""Returns the answer of a module to these bytes."""

_START: Final = (sys.executable, "-P", "-m")
_NICE: Final = 10
"""The priority of a child: admissions go first, also where a container has little CPU."""


class ChildFailed(SharderError):
    """The child process has ended without an answer."""


def in_child(module: str) -> Compute:
    """Return a function that runs a module, which reads its input and writes its output.

    The child inherits the environment and module path of this process, but no sockets.  Signals of
    a terminal do not reach it; it is killed if the call is cancelled.
    """

    async def compute(data: bytes) -> bytes:
        child = await asyncio.create_subprocess_exec(
            *_START,
            module,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,
        )
        try:
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, child.pid, _NICE)
            answer, error = await child.communicate(data)
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        if child.returncode != 0:
            last = error.decode(errors="replace").strip().rpartition("\n")[2]
            raise ChildFailed(f"{module} ended with {child.returncode}: {last[:200]}")
        return answer

    return compute
