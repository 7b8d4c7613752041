"""Run the command line: exit codes, errors in one line, reformatted help, and completion."""

import os
import re
import shlex
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from functools import partial
from io import StringIO
from typing import Final

import typer
import typer.completion
from typer.core import TyperGroup
from typing_extensions import override

from sharder.cli import missing
from sharder.core.errors import SharderError

FAILED: Final = 1
"""Exit code of a command that failed; a usage error exits with 2."""

_ORDER: Final = (
    *("rings", "shards", "top", "explain", "plan", "dump", "check", "console", "fence"),
    *("cordon", "uncordon", "evacuate", "pause", "resume", "pin", "unpin"),
    *("certs", "run", "init", "version", "completion"),
)
"""The order of the commands in the help: inspect, steer, then operate."""

_COMPLETE: Final = "_SHARDER_COMPLETE"
"""The variable with which the completion script of a shell requests proposals."""

_TYPE: Final = re.compile(r" <(?:str|list\[str\]|path)>")
"""Python types that typer prints after the names of arguments."""
_BRACED: Final = re.compile(r"\{([A-Z/]+)\}")
_CALL: Final = re.compile(rf"\bsharder(?= (?:{'|'.join(_ORDER)})\b)")


class InOrder(TyperGroup):
    """Commands in the order of tasks, not of registration."""

    @override
    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        # The type of the base class has no public name.
        return sorted(self.commands, key=[*_ORDER, *self.commands].index)


def run(app: typer.Typer, arguments: list[str], name: str) -> int:
    """Run a command and return its exit code; an error becomes one line on stderr."""
    call: Callable[[], object] = partial(app, arguments, prog_name=name, standalone_mode=False)
    try:
        code = call() if {"-h", "--help"}.isdisjoint(arguments) else _help(call, name)
        sys.stdout.flush()
    except typer.TyperException as error:
        called: typer.Context | None = getattr(error, "ctx", None)
        path = name if called is None else called.command_path
        return _fail(f"{error.format_message()} (see {path} --help)", error.exit_code)
    except SharderError as error:
        return _fail(str(error), FAILED)
    except ModuleNotFoundError as error:
        return _fail(missing(error, "server" if arguments[0] == "run" else "cli"), FAILED)
    except BrokenPipeError:
        sys.stdout = None  # the reader has closed the pipe: Python must not flush at exit
        return FAILED
    except OSError as error:
        # Python 3.13 would flush again at exit, and change the exit code.
        sys.stdout = None
        return _fail(f"cannot print: {error.strerror or error}", FAILED)
    return code if isinstance(code, int) else 0


def _help(call: Callable[[], object], name: str) -> object:
    """Print the help without Python types, and with the name of the program as it was called."""
    with redirect_stdout(StringIO()) as shown:
        code = call()
    aligned = _TYPE.sub(lambda match: " " * len(match[0]), shown.getvalue())
    plain = _BRACED.sub(r"\1", aligned)
    sys.stdout.write(f"{_CALL.sub(name, plain).rstrip()}\n")
    return code


def _fail(message: str, code: int) -> int:
    print(f"sharder: {' '.join(message.split())}", file=sys.stderr)
    return code


def is_completing() -> bool:
    """Return whether the completion script of a shell requests proposals."""
    return _COMPLETE in os.environ


def complete(app: typer.Typer, instruction: str | None = None) -> None:
    """Print the completion script of a shell, or proposals; then exit."""
    if instruction is not None:
        os.environ[_COMPLETE] = instruction
    typer.completion.get_completion_inspect_parameters()  # registers the shells
    app([], prog_name="sharder")


def proposals_for_kubectl(app: typer.Typer, arguments: list[str]) -> str:
    """Return the completions of the last argument, in the form that kubectl expects.

    Source:
        k8s.io/kubectl/pkg/cmd/plugin_completion.go: one proposal a line, then a directive of
        cobra; 4 is ShellCompDirectiveNoFileComp.
    """
    os.environ["COMP_WORDS"] = shlex.join(["sharder", *arguments])
    os.environ["COMP_CWORD"] = str(len(arguments))
    with redirect_stdout(StringIO()) as shown, suppress(SystemExit):
        complete(app, "complete_bash")
    return "\n".join(filter(None, [shown.getvalue().rstrip(), ":4"]))
