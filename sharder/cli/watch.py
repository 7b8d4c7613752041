"""`--watch`: print the whole list, then every change.

The list is polled, which needs no right to watch.  The longer a read takes, the longer is the
pause after it, so that a large ring costs the API server no more than a small one.
"""

import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final, Generic, TypeVar

import msgspec

from sharder.cli.cluster_view import Cluster, read
from sharder.cli.options import ListOutput
from sharder.cli.output import Table, show, write
from sharder.core.errors import Expired, Unavailable
from sharder.runtime.clock import Clock, SystemClock

POLL_SECONDS: Final = 2.0
"""Seconds between two reads of the cluster."""
BUSY_SHARE: Final = 0.1
"""At most this share of the time is spent reading."""

_AGES: Final = frozenset({"RENEWED"})
"""Columns that change with the time alone."""
_DELETED: Final = "deleted"

Report = TypeVar("Report", bound=msgspec.Struct)
Row = tuple[str, ...]


class Changes(Generic[Report]):
    """Prints a list, then every new row, and every new line of the notes below the list."""

    def __init__(
        self,
        form: ListOutput,
        *,
        rows: Callable[[Report], Table],
        notes: Callable[[Report], Iterable[str]],
    ) -> None:
        self._form = form
        self._rows = rows
        self._notes = notes
        self._known: dict[Row, str] | None = None
        """The name in each printed row; the keys are the rows without ages."""
        self._noted = frozenset[str]()
        self._widths: tuple[int, ...] = ()

    def show(self, report: Report) -> None:
        """Print the changes since the last report."""
        table, notes = self._rows(report), tuple(self._notes(report))
        known = {_ageless(table, row): row[0] for row in table.rows}
        if (known, frozenset(notes)) == (self._known, self._noted):
            return
        if self._form in {ListOutput.JSON, ListOutput.YAML}:
            show(report, self._form, lambda _: None)
        else:
            self._show_rows(table, known)
            write(*(note for note in notes if note not in self._noted))
        self._known, self._noted = known, frozenset(notes)
        sys.stdout.flush()

    def _show_rows(self, table: Table, known: dict[Row, str]) -> None:
        before, header = self._known, table.header
        rows = table.rows
        if before is not None:
            rows = tuple(row for row in rows if _ageless(table, row) not in before)
            gone = sorted(set(before.values()) - set(known.values()))
            rows += tuple((name, _DELETED, *("-" for _ in header[2:])) for name in gone)
            header = ()
        shown, wide = Table(header, rows), (*self._widths, *(0 for _ in table.header))
        if rows or header:
            self._widths = tuple(map(max, shown.widths(), wide))
            sys.stdout.writelines(f"{line}\n" for line in shown.lines(self._widths))


def run(
    kubeconfig: str | None,
    context: str | None,
    ask: Callable[[Cluster], Awaitable[Report]],
    changes: Changes[Report],
) -> None:
    """Connect, and print the list and its changes until Ctrl-C."""
    task = partial(follow, ask=ask, changes=changes, clock=SystemClock())
    read(kubeconfig, context, task)


async def follow(
    cluster: Cluster,
    *,
    ask: Callable[[Cluster], Awaitable[Report]],
    changes: Changes[Report],
    clock: Clock,
) -> None:
    """Show the reports of `ask` forever; retry while the API server is unavailable."""
    warned = ""
    while True:
        began = clock.monotonic()
        try:
            report = await ask(replace(cluster, now=clock.now()))
        except (Expired, Unavailable) as error:
            if str(error) != warned:
                print(f"warning: {error}; still trying", file=sys.stderr)
            warned = str(error)
        else:
            changes.show(report)
            warned = ""
        spent = clock.monotonic() - began
        await clock.sleep(max(POLL_SECONDS, spent / BUSY_SHARE - spent))


def _ageless(table: Table, row: Row) -> Row:
    return tuple(c for name, c in zip(table.header, row, strict=True) if name not in _AGES)
