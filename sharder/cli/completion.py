"""Completion in shells, and by `kubectl shard`: commands, options, and names of the cluster.

Reads of the cluster have a short limit, and after any error nothing is proposed: a message would
destroy the line that is being typed.
"""

# ruff: noqa: PLC0415 - every command imports this module, few of them complete names

import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from sharder.cli.command import COMMANDS, Argument, Command, Typed, find
from sharder.core.errors import SharderError

if TYPE_CHECKING:
    from sharder.cli.cluster_view import Cluster

_PLAIN: Final = re.compile(r"[\w./:-]+", re.ASCII)

SECONDS: Final = 2.0
"""Limit on the time to connect to a cluster and read from it."""

HIDDEN: Final = "__complete"
"""The command by which the scripts ask for proposals."""

SCRIPTS: Final = {
    "bash": """_sharder_completion() {
    local IFS=$'\\n'
    COMPREPLY=($("$1" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -F _sharder_completion sharder
""",
    "zsh": """#compdef sharder
_sharder_completion() {
    compadd -- ${(f)"$("$words[1]" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"}
}
compdef _sharder_completion sharder
""",
    "fish": """complete --command sharder --no-files --arguments \\
    '(sharder __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
""",
}
"""The script of each shell."""


def proposals(words: Sequence[str]) -> list[str]:
    """Return the proposals for the last word."""
    *before, incomplete = words or [""]
    command, rest = find(before)
    found = set[str]()
    if command is None or not rest:
        path = " ".join((*before, ""))
        found = {name.removeprefix(path).split()[0] for name in COMMANDS if name.startswith(path)}
    if command is not None:
        found |= {*_arguments(command, rest, incomplete)}
    return sorted(each for each in found if each.startswith(incomplete))


def _arguments(command: Command, rest: Sequence[str], incomplete: str) -> Iterable[str]:
    """Return what can follow the words after a command."""
    typed, option = _typed(command, rest)
    if option is not None:
        return option.proposed(typed, incomplete)
    if incomplete.startswith("-"):
        return [each.names[-1] for each in command.arguments if each.is_option]
    arguments = [each for each in command.arguments if not each.is_option]
    place = len(typed.positionals)
    # One with many values takes all that follow; the shard of `pin` is proposed with its objects.
    argument = next((each for each in arguments[: place + 1][::-1] if each.takes_many), None)
    if argument is None and place < len(arguments):
        argument = arguments[place]
    return argument.proposed(typed, incomplete) if argument else ()


def _typed(command: Command, words: Iterable[str]) -> tuple[Typed, Argument | None]:
    """Return what was typed, and the option at its end that lacks its value."""
    typed, rest = Typed([], {}), iter(words)
    flags = {flag: each for each in command.arguments if each.is_option for flag in each.names}
    for word in rest:
        flag, is_given, value = word.partition("=")
        option = flags.get(flag)
        if option is None:
            typed.positionals.append(word)
        elif not option.is_switch:
            following = value if is_given else next(rest, None)
            if following is None:
                return typed, option
            typed.options[option.names[-1]] = following
    return typed, None


def rings(typed: Typed, incomplete: str) -> list[str]:
    """Return the names of rings."""
    from sharder.cli import candidates

    return _named(typed, candidates.rings, incomplete)


def shards(typed: Typed, incomplete: str) -> list[str]:
    """Return the names of the ring's shards."""
    from sharder.cli import candidates

    if not typed.positionals:
        return []
    return _named(typed, partial(candidates.shards, ring=typed.positionals[0]), incomplete)


def objects(typed: Typed, incomplete: str) -> list[str]:
    """Return resources of the ring, then their objects."""
    from sharder.cli import candidates

    ring, *words = typed.positionals
    find = partial(
        candidates.objects,
        ring=ring,
        words=words,
        namespace=typed.options.get("--namespace", ""),
        incomplete=incomplete,
    )
    return _named(typed, find, incomplete)


def objects_and_shards(typed: Typed, incomplete: str) -> list[str]:
    """Return the same, and after an object also the names of shards."""
    found, (_, *words) = objects(typed, incomplete), typed.positionals
    is_complete = len(words) > 1 or (words and "/" in words[0])
    return found + (shards(typed, incomplete) if is_complete else [])


def _named(
    typed: Typed, find: "Callable[[Cluster], Awaitable[Iterable[str]]]", incomplete: str
) -> list[str]:
    from sharder.cli.cluster_view import read

    logging.disable()
    try:
        kubeconfig = typed.options.get("--kubeconfig", os.environ.get("KUBECONFIG"))
        names = read(kubeconfig, typed.options.get("--context"), find, seconds=SECONDS)
    except (SharderError, OSError):
        return []
    return [name for name in dict.fromkeys(names) if is_proposed(name, incomplete)]


def is_proposed(name: str, incomplete: str) -> bool:
    """Return whether to propose the name: a shell could run code in special characters."""
    return name.startswith(incomplete) and _PLAIN.fullmatch(name) is not None
