"""Completion in shells, and by `kubectl shard`: commands, options, and names of rings and shards.

Reads of the cluster have a short limit, and after any error nothing is proposed: a message would
destroy the line that is being typed.
"""

# ruff: noqa: PLC0415 - every command imports this module, few of them complete names

import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sharder.cli.command import COMMANDS, Argument, Command
from sharder.core.errors import SharderError
from sharder.core.names import RING_LABEL

if TYPE_CHECKING:
    from sharder.cli.cluster import Cluster

_PLAIN: Final = re.compile(r"[\w./:-]+", re.ASCII)
"""Names to propose: a shell could run code in special characters."""

SECONDS: Final = 2.0
"""Limit on the time to read from a cluster."""

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
    found: Iterable[str] = ()
    if not before:
        found = COMMANDS
    elif before[0] in COMMANDS:
        found = _of_command(COMMANDS[before[0]], before[1:], incomplete)
    return sorted(each for each in {*found} if is_proposed(each, incomplete))


def is_proposed(word: str, incomplete: str) -> bool:
    """Return whether the word completes the incomplete one, and is safe in a shell."""
    return word.startswith(incomplete) and _PLAIN.fullmatch(word) is not None


def _of_command(command: Command, words: Sequence[str], incomplete: str) -> Iterable[str]:
    options = {flag: each for each in command.arguments if each.is_option for flag in each.names}
    places = [each for each in command.arguments if not each.is_option]
    given, positionals, rest = dict[str, str](), list[str](), iter(words)
    wanted: Argument | None = None
    for word in rest:
        flag, is_given, value = word.partition("=")
        option = options.get(flag)
        if option is None:
            positionals.append(word)
        elif not option.is_switch:
            following = value if is_given else next(rest, None)
            wanted = option if following is None else None
            given[option.names[-1]] = following or ""
    if wanted is None and incomplete.startswith("-"):
        return [each.names[-1] for each in options.values()]
    if wanted is None and len(positionals) < len(places):
        wanted = places[len(positionals)]
    elif wanted is None and places and places[-1].takes_many:
        wanted = places[-1]
    if wanted is None:
        return ()
    kind, choices = wanted.options.get("metavar"), wanted.options.get("choices", ())
    return _names(kind, positionals, given) if kind in {"RING", "SHARD"} else choices


def _names(kind: str | None, positionals: Sequence[str], given: Mapping[str, str]) -> list[str]:
    """Return the names of the rings, or of the shards of the first ring."""
    import asyncio

    from sharder.cli.cluster import read

    async def ask(cluster: "Cluster") -> list[str]:
        async with asyncio.timeout(SECONDS):
            if kind == "RING":
                return [ring.name async for ring in cluster.rings.stream()]
            leases = cluster.leases.stream(f"{RING_LABEL}={positionals[0]}")
            return [lease.metadata.name async for lease in leases]

    logging.disable()
    try:
        kubeconfig = given.get("--kubeconfig", os.environ.get("KUBECONFIG"))
        return read(kubeconfig, given.get("--context"), ask)
    except (SharderError, OSError, IndexError):
        return []
