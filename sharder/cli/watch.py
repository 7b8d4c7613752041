"""`--watch`: read and print a report again and again."""

import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from shutil import get_terminal_size
from typing import Final, TypeVar

from sharder.cli.cluster import Cluster
from sharder.core.errors import Unavailable

Report = TypeVar("Report")

PAUSE_SECONDS: Final = 2.0
"""The shortest pause between two reads."""
PAUSE_FACTOR: Final = 9
"""A pause is this many times as long as the read before it, for the API server's sake."""

_CLEAR: Final = "\x1b[H\x1b[J"
"""Moves the cursor home, and clears the screen below it (ECMA-48)."""


async def watch(
    cluster: Cluster,
    *,
    ask: Callable[[Cluster], Awaitable[Report]],
    draw: Callable[[Report], None],
) -> None:
    """Draw what `ask` returns until cancelled; after the first time the API server can be away."""
    shown, warning = "", ""
    while True:
        begin = cluster.clock.monotonic()
        try:
            report = await ask(replace(cluster, now=cluster.clock.now()))
        except Unavailable as error:
            if not shown:
                raise
            warning = f"not refreshed: {error}\n"
        else:
            with redirect_stdout(StringIO()) as frame:
                draw(report)
            shown, warning = frame.getvalue(), ""
        lines = (shown + warning).splitlines()[: get_terminal_size().lines - 1]
        sys.stdout.write("\n".join((_CLEAR + lines[0], *lines[1:], "")))
        sys.stdout.flush()
        took = cluster.clock.monotonic() - begin
        await cluster.clock.sleep(max(PAUSE_SECONDS, PAUSE_FACTOR * took))
