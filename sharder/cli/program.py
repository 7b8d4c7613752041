"""Run the command line: exit codes, errors in one line, and help."""

import sys
from collections.abc import Sequence
from typing import Final

from sharder import __version__
from sharder.cli import missing
from sharder.cli.command import COMMANDS, UsageError, called, find
from sharder.core.errors import SharderError

FAILED: Final = 1
"""Exit code of a command that failed."""
WRONG: Final = 2
"""Exit code of a wrong command line."""

ORDER: Final = (
    *(
        "rings",
        "rings cleanup",
        "shards",
        "objects",
        "explain",
        "plan",
        "dump",
        "check",
        "console",
        "fence",
    ),
    *("cordon", "uncordon", "evacuate", "pause", "resume", "pin", "unpin"),
    *("certs", "certs rotate", "run", "init", "version", "completion"),
)
"""The order of the commands in the help: inspect, steer, then operate."""

_TEXT: Final = """Scale Kubernetes controllers out: each replica works on objects of its own.

Check the installation:    sharder check
List the rings:            sharder rings
List the shards of a ring: sharder shards my-ring
Find what waits or drains: sharder objects my-ring --draining
Explain one object:        sharder explain my-ring secret/my-secret -n default
Preview the next moves:    sharder plan my-ring
Empty a shard:             sharder evacuate my-ring my-shard --wait
Pause movement:            sharder pause my-ring
Show the certificates:     sharder certs
Run the service:           sharder run --config config.yaml
"""


def run(words: Sequence[str], name: str) -> int:
    """Run a command and return its exit code; an error becomes one line on stderr."""
    try:
        _run(words, name)
        sys.stdout.flush()
    except UsageError as error:
        command, _ = find(words)
        helped = name if command is None else f"{name} {command.name}"
        return _fail(f"{error} (see {helped} --help)", WRONG)
    except SharderError as error:
        return _fail(str(error), FAILED)
    except ModuleNotFoundError as error:
        return _fail(missing(error, "server" if words[0] == "run" else "cli"), FAILED)
    except BrokenPipeError:
        sys.stdout = None  # the reader has closed the pipe: Python must not flush at exit
        return FAILED
    except OSError as error:
        # Python 3.13 would flush again at exit, and change the exit code.
        sys.stdout = None
        return _fail(f"cannot print: {error.strerror or error}", FAILED)
    return 0


def _run(words: Sequence[str], name: str) -> None:
    command, rest = find(words)
    wants_help = not {"-h", "--help"}.isdisjoint(rest)
    if command is not None and wants_help:
        print(called(name, command.parser(name).format_help()), end="")
    elif command is not None:
        command.call(rest, name)
    elif "--version" in rest:
        print(f"sharder {__version__}")
    elif wants_help or not rest:
        known = sorted(COMMANDS, key=[*ORDER, *COMMANDS].index)
        print(f"usage: {name} COMMAND", called(name, _TEXT.rstrip()), "commands:", sep="\n\n")
        print(*(f"  {each:16}{COMMANDS[each].summary}" for each in known), sep="\n")
    else:
        raise UsageError(f"no such command: {rest[0]}")


def _fail(message: str, code: int) -> int:
    print(f"sharder: {' '.join(message.split())}", file=sys.stderr)
    return code
