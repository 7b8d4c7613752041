"""Completion in shells, and by `kubectl shard`: names of rings, shards and objects.

Reads of the cluster have a short limit, and after any error nothing is proposed: a message would
destroy the line that is being typed.
"""

# ruff: noqa: PLC0415 - every command imports this module, few of them complete names

import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

import typer

from sharder.core.errors import SharderError

if TYPE_CHECKING:
    from sharder.cli.cluster_view import Cluster

_PLAIN: Final = re.compile(r"[\w./:-]+", re.ASCII)

SECONDS: Final = 2.0
"""Limit on the time to connect to a cluster and read from it."""


def rings(called: typer.Context, incomplete: str) -> list[str]:
    """Return the names of rings."""
    from sharder.cli import candidates

    return _propose(called, candidates.rings, incomplete)


def shards(called: typer.Context, incomplete: str) -> list[str]:
    """Return the names of the ring's shards."""
    from sharder.cli import candidates

    ring = _one(called, "ring")
    if ring is None:
        return []
    return _propose(called, partial(candidates.shards, ring=ring), incomplete)


def objects(called: typer.Context, incomplete: str) -> list[str]:
    """Return resources of the ring, then their objects; for `pin` also shards after an object."""
    from sharder.cli import candidates

    ring, words = _one(called, "ring"), _given(called, "words")
    if ring is None:
        return []
    namespace = _one(called, "namespace") or ""
    words += _given(called, "shard")  # the last word so far counts as SHARD, but can be an OBJECT
    find = partial(
        candidates.objects, ring=ring, words=words, namespace=namespace, incomplete=incomplete
    )
    proposals = _propose(called, find, incomplete)
    is_complete = len(words) > 1 or (words and "/" in words[0])
    if "shard" in called.params and is_complete:
        proposals += shards(called, incomplete)
    return proposals


def _propose(
    called: typer.Context,
    find: "Callable[[Cluster], Awaitable[Iterable[str]]]",
    incomplete: str,
) -> list[str]:
    from sharder.cli.cluster_view import read

    kubeconfig, context = _one(called, "kubeconfig"), _one(called, "context")
    logging.disable()
    try:
        names = read(kubeconfig, context, find, seconds=SECONDS)
    except (SharderError, OSError):
        return []
    return [name for name in dict.fromkeys(names) if is_proposed(name, incomplete)]


def is_proposed(name: str, incomplete: str) -> bool:
    """Return whether to propose the name: a shell could run code in special characters."""
    return name.startswith(incomplete) and _PLAIN.fullmatch(name) is not None


def _one(called: typer.Context, name: str) -> str | None:
    return next(iter(_given(called, name)), None)


def _given(called: typer.Context, name: str) -> list[str]:
    """Return the values of an argument or option that were typed so far."""
    value: object = called.params.get(name)
    if isinstance(value, str):
        return [value]
    return [str(each) for each in value] if isinstance(value, (list, tuple)) else []
