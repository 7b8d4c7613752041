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
    CUT = "cut connections of"
    """All connections to the API server break; new ones are accepted."""
    DISCONNECT = "disconnect"
    """The same, and for a while no new ones are accepted."""
    HOLD = "hold back bytes of"
    """All bytes wait, and arrive later: connections stay open."""
    STALL = "stall connections of"
    """The same for every second connection, such as one of two watches."""
    NO_WEBHOOK = "no webhook"
    """All sharders are killed."""
    API_SERVER = "API server"
    """It is stopped and started again."""
    ETCD = "etcd"
    """The same."""
    DELETE_LEASE = "delete Lease of"
    FORGE_HOLDER = "forge holder of"
    """The Lease of a shard gets another holder."""
    FORGE_LEASE = "forge Lease:"
    DELETE_WEBHOOK = "delete webhook"
    ROTATE = "rotate certificates:"
    EDIT_RING = "edit ring:"
    """And undo it after a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault."""

    at: float
    """Seconds from the start."""
    kind: Kind
    target: str
    """Name of a process or of one way to do it; empty where there is only one."""
    seconds: float
    """How long it lasts."""


GHOST, TWIN, LONG_NAME = "ghost", "twin", "long name"
FORGERIES: Final = (GHOST, TWIN, LONG_NAME)
"""A shard without a process; a Lease with the name of a shard in a namespace of others; a name
that is no label value."""
STRATEGY, PAUSED, BUDGET = "strategy", "paused", "budget"
EDITS: Final = (STRATEGY, PAUSED, BUDGET)
SERVING, AUTHORITY = "serving", "authority"
CERTIFICATES: Final = (SERVING, AUTHORITY)

_SHARD, _SHARDER, _CLUSTER = "shard", "sharder", ""
WEIGHTS: Final[Mapping[tuple[Kind, str], int]] = {
    (Kind.KILL, _SHARD): 20,
    (Kind.TERMINATE, _SHARD): 16,
    (Kind.PAUSE, _SHARD): 18,
    (Kind.CUT, _SHARD): 5,
    (Kind.DISCONNECT, _SHARD): 8,
    (Kind.HOLD, _SHARD): 12,
    (Kind.STALL, _SHARD): 12,
    (Kind.KILL, _SHARDER): 9,
    (Kind.TERMINATE, _SHARDER): 6,
    (Kind.PAUSE, _SHARDER): 6,
    (Kind.CUT, _SHARDER): 3,
    (Kind.DISCONNECT, _SHARDER): 4,
    (Kind.HOLD, _SHARDER): 4,
    (Kind.STALL, _SHARDER): 5,
    (Kind.NO_WEBHOOK, _CLUSTER): 4,
    (Kind.API_SERVER, _CLUSTER): 4,
    (Kind.ETCD, _CLUSTER): 3,
    (Kind.DELETE_LEASE, _SHARD): 6,
    (Kind.FORGE_HOLDER, _SHARD): 4,
    (Kind.FORGE_LEASE, _CLUSTER): 5,
    (Kind.DELETE_WEBHOOK, _CLUSTER): 5,
    (Kind.ROTATE, _CLUSTER): 3,
    (Kind.EDIT_RING, _CLUSTER): 6,
}
WAYS: Final[Mapping[Kind, Sequence[str]]] = {
    Kind.FORGE_LEASE: FORGERIES,
    Kind.ROTATE: CERTIFICATES,
    Kind.EDIT_RING: EDITS,
}
LASTS: Final[Mapping[Kind, tuple[float, float]]] = {
    Kind.KILL: (0.5, 16),
    Kind.TERMINATE: (1, 16),
    Kind.PAUSE: (1, 20),
    Kind.DISCONNECT: (1, 20),
    Kind.HOLD: (1, 20),
    Kind.STALL: (1, 8),
    Kind.NO_WEBHOOK: (4, 12),
    Kind.API_SERVER: (1, 8),
    Kind.ETCD: (1, 5),
    Kind.EDIT_RING: (3, 15),
}
"""The least and the most seconds; other faults are done at once."""
OUTAGES: Final = {Kind.API_SERVER, Kind.ETCD}
CALM: Final = 25.0
"""Seconds after an outage in which there is none: else the service never comes to rest."""


def schedule(
    rng: Random,
    seconds: float,
    *,
    apart: tuple[float, float] = (1.0, 7.0),
    shards: Sequence[str],
    sharders: Sequence[str],
) -> list[Fault]:
    """Return faults in the order of time, none on a process that another one still lasts for."""
    busy: dict[str, float] = {}
    faults, at = list[Fault](), 0.0
    while (at := at + rng.uniform(*apart)) < seconds:
        kind, who = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        names = {_SHARD: shards, _SHARDER: sharders}.get(who, WAYS.get(kind, [""]))
        target = rng.choice(names)
        lasts = rng.uniform(*LASTS[kind]) if kind in LASTS else 0.0
        touched = sharders if kind is Kind.NO_WEBHOOK else ["" if kind in OUTAGES else target]
        if any(busy.get(name, 0.0) > at for name in touched) and kind in LASTS:
            continue
        for name in touched if kind in LASTS else ():
            busy[name] = at + lasts + (CALM if kind in OUTAGES else 1.0)
        faults.append(Fault(at=at, kind=kind, target=target, seconds=lasts))
    return faults
