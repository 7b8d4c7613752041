"""What a person sees on stderr while a clean-up runs."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status
from rich.text import Text

from sharder.cli.cleanup_sweep import Tally
from sharder.core.names import GroupResource


class Progress:
    """A line that changes, where there is a terminal, and one for each resource that is done."""

    def __init__(self, console: Console, status: Status) -> None:
        self._console = console
        self._status = status

    def show(self, resource: GroupResource, tally: Tally) -> None:
        """Show how far a resource is."""
        self._status.update(_line(resource, tally))

    def finish(self, resource: GroupResource, tally: Tally) -> None:
        """Leave a line about a resource in which something was found."""
        if tally.found:
            self._print(_line(resource, tally))

    def warn(self, warning: str) -> None:
        """Print a warning."""
        self._print(Text(f"warning: {warning}"))

    def _print(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


@contextmanager
def progress() -> Iterator[Progress]:
    """Show progress on stderr; without a terminal only lines that stay."""
    console = Console(stderr=True, highlight=False)
    with console.status("") as status:
        yield Progress(console, status)


def _line(resource: GroupResource, tally: Tally) -> Text:
    counts = f"{resource}: {tally.found} found, {tally.cleaned} cleaned"
    failed = f", {len(tally.failures)} failed" if tally.failures else ""
    problem = f", stopped: {tally.problem}" if tally.problem else ""
    text = f"{counts}{failed}{problem}"
    return Text(text if text.isprintable() else repr(text))
