"""Which fault comes when: a pure function of a seed's random numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final


class Kind(StrEnum):
    """What is done to whom."""

    KILL = "kill"
    """SIGKILL; started again after a while."""
    TERMINATE = "terminate"
    """SIGTERM; started again after a while."""
    PAUSE = "pause"
    """SIGSTOP, then SIGCONT."""
    NO_WEBHOOK = "no webhook"
    """All sharders are killed."""
    API_SERVER = "API server"
    """It is stopped and started again."""
    ETCD = "etcd"
    """The same."""
    DELETE_LEASE = "delete Lease"
    DELETE_WEBHOOK = "delete webhook"
    EDIT_RING = "edit ring"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault."""

    at: float
    """Seconds from the start."""
    kind: Kind
    target: str
    """Name of a process; empty where there is only one."""
    seconds: float
    """How long it lasts."""


_SHARD, _SHARDER, _CLUSTER = "shard", "sharder", ""
WEIGHTS: Final[Mapping[tuple[Kind, str], int]] = {
    (Kind.KILL, _SHARD): 25,
    (Kind.TERMINATE, _SHARD): 20,
    (Kind.PAUSE, _SHARD): 20,
    (Kind.KILL, _SHARDER): 12,
    (Kind.TERMINATE, _SHARDER): 8,
    (Kind.PAUSE, _SHARDER): 8,
    (Kind.NO_WEBHOOK, _CLUSTER): 5,
    (Kind.API_SERVER, _CLUSTER): 4,
    (Kind.ETCD, _CLUSTER): 3,
    (Kind.DELETE_LEASE, _SHARD): 8,
    (Kind.DELETE_WEBHOOK, _CLUSTER): 8,
    (Kind.EDIT_RING, _CLUSTER): 6,
}
LASTS: Final[Mapping[Kind, tuple[float, float]]] = {
    Kind.KILL: (0.5, 16),
    Kind.TERMINATE: (1, 16),
    Kind.PAUSE: (1, 20),
    Kind.NO_WEBHOOK: (4, 12),
    Kind.API_SERVER: (1, 8),
    Kind.ETCD: (1, 5),
}
"""The least and the most seconds; other faults are done at once."""
APART: Final = (1.0, 7.0)
"""Seconds between two faults."""
OUTAGES: Final = {Kind.API_SERVER, Kind.ETCD}
CALM: Final = 25.0
"""Seconds after an outage in which there is none: else the service never comes to rest."""


def schedule(
    rng: Random, seconds: float, *, shards: Sequence[str], sharders: Sequence[str]
) -> list[Fault]:
    """Return faults in the order of time, none on a process that another one still lasts for."""
    busy: dict[str, float] = {}
    faults, at = list[Fault](), 0.0
    while (at := at + rng.uniform(*APART)) < seconds:
        kind, who = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        target = rng.choice({_SHARD: shards, _SHARDER: sharders}.get(who, [""]))
        lasts = rng.uniform(*LASTS[kind]) if kind in LASTS else 0.0
        touched = sharders if kind is Kind.NO_WEBHOOK else ["" if kind in OUTAGES else target]
        if any(busy.get(name, 0.0) > at for name in touched) and kind in LASTS:
            continue
        for name in touched if kind in LASTS else ():
            busy[name] = at + lasts + (CALM if kind in OUTAGES else 1.0)
        faults.append(Fault(at=at, kind=kind, target=target, seconds=lasts))
    return faults
