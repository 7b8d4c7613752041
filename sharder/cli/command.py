"""Commands: functions whose signature and docstring are the parser and its help.

Only the parser of the command that is called is made.
"""

import inspect
import os
import re
import textwrap
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, NoReturn, TypeVar

import msgspec
from typing_extensions import override

from sharder.cli.arguments import Argument, arguments_of
from sharder.core.errors import SharderError

if TYPE_CHECKING:
    from sharder.cli.cluster import Cluster

T = TypeVar("T")
Report = TypeVar("Report", bound=msgspec.Struct)

_WIDTH: Final = 80
HELP: Final = partial(RawDescriptionHelpFormatter, width=_WIDTH, max_help_position=28)
"""The form of the help."""


class UsageError(SharderError):
    """The command line is wrong."""


class Parser(ArgumentParser):
    """Raises an error instead of exiting."""

    @override
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What all commands that read a cluster share."""

    kubeconfig: Annotated[
        str | None,
        "FILE",
        "Path of a kubeconfig; default: the variable KUBECONFIG, else the pod's service account, "
        "else ~/.kube/config.",
    ] = None
    context: Annotated[str | None, "NAME", "Context of the kubeconfig."] = None
    form: str = "table"
    """The format of the output."""

    def read(self, ask: "Callable[[Cluster], Awaitable[T]]") -> T:
        """Return what `ask` returns for the cluster.

        Raises:
            ConfigError: there is no usable kubeconfig.
        """
        import asyncio  # noqa: PLC0415 - not for the help

        from sharder.cli.cluster import Cluster  # noqa: PLC0415 - not for the help
        from sharder.kube.client import connect  # noqa: PLC0415 - not for the help
        from sharder.runtime.clock import SystemClock  # noqa: PLC0415 - not for the help

        kubeconfig = self.kubeconfig or os.environ.get("KUBECONFIG") or None

        async def connected() -> T:
            client = await connect(kubeconfig, self.context)
            try:
                return await ask(Cluster(client, SystemClock()))
            finally:
                await client.close()

        return asyncio.run(connected())

    def show(self, report: Report, draw: Callable[[Report], None]) -> None:
        """Print the report; `draw` prints it for people."""
        from sharder.cli.output import show  # noqa: PLC0415 - not for the help

        show(report, self.form, draw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, and the function that carries it out."""

    name: str
    arguments: tuple[Argument, ...]
    run: Callable[..., None]

    @property
    def summary(self) -> str:
        """What it does, in one line."""
        return (inspect.getdoc(self.run) or "").partition("\n")[0]

    def call(self, words: Sequence[str], program: str) -> None:
        """Run the command.

        Raises:
            UsageError: the command does not take these arguments.
        """
        values = vars(self.parser(program).parse_intermixed_args(words))
        shared = {name: values[name] for name in Call.__slots__ if name in values}
        own = inspect.signature(self.run).parameters
        self.run(Call(**shared), **{name: values[name] for name in values if name in own})

    def parser(self, program: str) -> Parser:
        """Return the parser, with the help that the docstring is."""
        *text, examples = (inspect.getdoc(self.run) or "").split("\n\n")
        parser = Parser(
            prog=f"{program} {self.name}",
            description="\n\n".join(textwrap.fill(paragraph, _WIDTH) for paragraph in text),
            epilog=f"examples:\n{textwrap.indent(examples, '  ')}",
            formatter_class=HELP,
            allow_abbrev=False,
        )
        for each in self.arguments:
            parser.add_argument(*each.names, **each.options)
        return parser


COMMANDS: Final[dict[str, Command]] = {}
"""All commands by name, in the order of their definition."""

TABLE: Final = ("table", "json", "yaml")
WIDE: Final = ("table", "wide", "json", "yaml")
"""The formats of an output, the default first."""


def command(
    *, output: tuple[str, ...] = TABLE, cluster: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function, which gets a `Call` and then the arguments that it declares.

    The docstring of the function is the help, and `output` the formats of what it prints.
    """
    shared = arguments_of(Call) if cluster else ()
    help_text = f"{', '.join(output)}; default: table.  JSON and YAML are stable interfaces."
    said = {"dest": "form", "metavar": "FORMAT", "choices": output, "default": "table"}
    form = Argument(("-o", "--output"), {**said, "help": help_text})

    def register(run: Callable[..., None]) -> Callable[..., None]:
        every = (*arguments_of(run), *shared, *((form,) if output else ()))
        COMMANDS[run.__name__] = Command(name=run.__name__, arguments=every, run=run)
        return run

    return register


def called(program: str, text: str) -> str:
    """Return a text with the commands in it as the program was called."""
    return re.sub(rf"\bsharder(?= ({'|'.join(COMMANDS)})\b)", program, text)
