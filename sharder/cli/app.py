"""Run the command line: exit codes, errors in one line, and help."""

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from errno import EBADF, EDQUOT, EFBIG, EIO, ENOSPC
from itertools import zip_longest
from pathlib import Path
from typing import Final

from sharder import __version__
from sharder.cli import install_commands, missing, read_commands, steer_commands
from sharder.cli.command import COMMANDS, UsageError, called
from sharder.core.errors import SharderError

__all__ = ["install_commands", "read_commands", "steer_commands"]  # their import fills COMMANDS

FAILED: Final = 1
"""Exit code of a command that failed."""
WRONG: Final = 2
"""Exit code of a wrong command line."""
_OF_OUTPUT: Final = {EBADF, EDQUOT, EFBIG, EIO, ENOSPC}
"""What a write to standard output can fail with; with a file name it was another file."""

GROUPS: Final = {
    "Look": ("check", "rings", "shards", "objects", "explain", "plan", "dump", "console"),
    "Steer": ("cordon", "uncordon", "evacuate", "pause", "resume", "pin"),
    "Operate": ("run", "proxy", "inject", "certs", "fence", "cleanup"),
}
"""The order of the commands in the help."""
_DEPRECATED: Final = {
    "unpin": "pin --remove",
    "rings cleanup": "cleanup",
    "certs rotate --authority": "certs --rotate authority",
    "certs rotate": "certs --rotate serving",
}
"""The commands of 0.2 with other names since, and their replacements."""


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong usage."""
    if sys.stdout is None:  # closed: let writes fail, as those of other programs do
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), "w")
    name = Path(sys.argv[0]).name
    code = run_command(sys.argv[1:], name.replace("kubectl-", "kubectl "))
    gc.freeze()  # otherwise the interpreter collects garbage in all modules before it exits
    sys.exit(code)


def run_command(words: Sequence[str], name: str = "sharder") -> int:
    """Run a command and return its exit code; an error becomes one line on stderr."""
    try:
        _run(words, name)
        sys.stdout.flush()
    except UsageError as error:
        helped = f"{name} {words[0]}" if words[0] in COMMANDS else name
        return _fail(f"{error} (see {helped} --help)", WRONG)
    except SharderError as error:
        return _fail(str(error), FAILED)
    except ModuleNotFoundError as error:
        return _fail(missing(error, "server" if words[0] == "run" else "cli"), FAILED)
    except BrokenPipeError:
        sys.stdout = None  # the reader has closed the pipe: Python must not flush at exit
        return FAILED
    except OSError as error:
        if error.filename is not None or error.errno not in _OF_OUTPUT:
            return _fail(str(error), FAILED)
        # Python 3.13 would flush again at exit, and change the exit code.
        sys.stdout = None
        return _fail(f"cannot print: {error.strerror or error}", FAILED)
    return 0


def _run(words: Sequence[str], name: str) -> None:
    first, *rest = _renamed(words) or ["--help"]
    command = COMMANDS.get(first)
    if command is not None and not {"-h", "--help"}.isdisjoint(rest):
        print(called(name, command.parser(name).format_help()), end="")
    elif command is not None:
        command.call(rest, name)
    elif first == "--version":
        print(f"sharder {__version__}")
    elif first in {"-h", "--help"}:
        print(called(name, "\n".join(_help(name))))
    else:
        raise UsageError(f"no such command: {first}")


def _renamed(words: Sequence[str]) -> list[str]:
    """Return the words with the present name of a deprecated command, and warn of it."""
    for old, new in _DEPRECATED.items():
        path = old.split()
        if [*words[: len(path)]] == path:
            print(f"warning: sharder {old} is deprecated: use sharder {new}", file=sys.stderr)
            return [*new.split(), *words[len(path) :]]
    return [*words]


def _help(name: str) -> Iterator[str]:
    yield f"usage: {name} COMMAND [--help], or {name} --version\n"
    for group, commands in GROUPS.items():
        for label, each in zip_longest((group,), commands, fillvalue=""):
            yield f"{label:8}{each:11}{COMMANDS[each].summary}"
    yield "\nBegin with sharder check.  Each --help has examples."


def _fail(message: str, code: int) -> int:
    print(f"sharder: {' '.join(message.split())}", file=sys.stderr)
    return code
