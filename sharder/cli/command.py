"""Commands: what each takes, declared once for argparse and its help.

Only the parser of the command that is called is made.
"""

import inspect
import os
import re
import textwrap
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import msgspec
from typing_extensions import override

from sharder.core.errors import ConfigError, SharderError

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


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a command, or an option if its names are flags."""

    names: tuple[str, ...]
    options: Mapping[str, Any]
    """Those of argparse's `add_argument`."""

    def but(self, *names: str, **options: Any) -> "Argument":  # noqa: ANN401 - as in argparse
        """Return the same with other names, if any are given, and these options changed."""
        return replace(self, names=names or self.names, options={**self.options, **options})


def argument(
    *names: str,
    of: Callable[[str], object] = str,
    **options: Any,  # noqa: ANN401 - as in argparse
) -> Argument:
    """Return an argument; `of` returns its value, or raises an error that says what is wrong."""

    def parse(word: str) -> object:
        try:
            return of(word)
        except (ConfigError, ValueError) as error:
            raise ArgumentTypeError(str(error)) from error

    return Argument(names, options if of is str else {**options, "type": parse})


def switch(*flags: str, help: str) -> Argument:  # noqa: A002 - as in argparse
    """Return an option without a value."""
    return Argument(flags, {"action": "store_true", "help": help})


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What all commands that read a cluster share."""

    kubeconfig: str | None = None
    context: str | None = None
    form: str = "table"
    """The format of the output."""

    def read(self, ask: "Callable[[Cluster], Awaitable[T]]") -> T:
        """Return what `ask` returns for the cluster."""
        from sharder.cli.cluster import read  # noqa: PLC0415 - not for the help

        return read(self.kubeconfig, self.context, ask)

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
        shared = {name: values.pop(name) for name in Call.__slots__ if name in values}
        self.run(Call(**shared), **values)

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
        if KUBECONFIG in self.arguments:
            parser.set_defaults(kubeconfig=os.environ.get("KUBECONFIG") or None)
        return parser


COMMANDS: Final[dict[str, Command]] = {}
"""All commands by name, in the order of their definition."""

KUBECONFIG: Final = argument(
    "--kubeconfig",
    metavar="FILE",
    help="Path of a kubeconfig; default: the variable KUBECONFIG, else the pod's service account, "
    "else ~/.kube/config.",
)
CONTEXT: Final = argument("--context", metavar="NAME", help="Context of the kubeconfig.")

TABLE: Final = ("table", "json", "yaml")
WIDE: Final = ("table", "wide", "json", "yaml")
"""The formats of an output, the default first."""


def command(
    *arguments: Argument, output: tuple[str, ...] = TABLE, cluster: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function, which gets a `Call` and then the arguments by name.

    The docstring of the function is the help, and `output` the formats of what it prints.
    """
    shared = (KUBECONFIG, CONTEXT) if cluster else ()
    form = argument(
        "-o", "--output", dest="form", metavar="FORMAT", choices=output, default="table",
        help=f"{', '.join(output)}; default: table.  JSON and YAML are stable interfaces.",
    )  # fmt: skip

    def register(run: Callable[..., None]) -> Callable[..., None]:
        every = (*arguments, *shared, *((form,) if output else ()))
        COMMANDS[run.__name__] = Command(name=run.__name__, arguments=every, run=run)
        return run

    return register


def called(program: str, text: str) -> str:
    """Return a text with the commands in it as the program was called."""
    return re.sub(rf"\bsharder(?= ({'|'.join(COMMANDS)})\b)", program, text)
