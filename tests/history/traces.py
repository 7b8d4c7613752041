"""What is known of a nemesis run when it is over."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A main object after a write to it."""

    revision: int
    at: float
    uid: str
    name: str
    owner: str
    draining: bool
    stamp: str
    """Changes with each write of a user, and with no other."""
    deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A child after a write to it."""

    revision: int
    at: float
    uid: str
    name: str
    parent: str
    """The uid of the object that controls it."""
    owner: str
    deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A write that had success, by the audit log of the API server."""

    revision: int
    """Of the answer; where the write changed nothing, of the write before."""
    shard: str
    """Whose pod the token of the request is bound to; empty for other clients."""
    uid: str
    name: str
    parent: str = ""
    """The uid of the object that controls the written one; empty for main objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A shard's Lease after a write to it."""

    revision: int
    at: float
    shard: str
    holder: str
    """Empty where the Lease is released or deleted."""
    renewed: float
    """When the holder wrote it, by its own renewTime; a write by others leaves this as it was."""
    seconds: float
    """The duration of the Lease."""
    state: str = ""
    """As the sharder shows it."""
    deleted: bool = False

    @property
    def is_held(self) -> bool:
        """Whether the shard itself holds it."""
        return self.holder == self.shard

    @property
    def is_released(self) -> bool:
        """Whether the shard itself gave it up."""
        return not self.holder and not self.deleted


class Happening(StrEnum):
    """What happened to a process."""

    STARTED = "started"
    PAUSED = "paused"
    RESUMED = "resumed"
    KILLED = "killed"
    TERMINATED = "terminated"
    ENDED = "ended"
    CUT_OFF = "cut off"
    """From the API server."""
    STALLED = "stalled"
    """Some of its connections are held back."""
    CONNECTED = "connected"
    UNWATCHED = "watches no objects"
    WATCHED = "watches objects"
    FORGED = "forged"
    """A Lease without a process appears."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened to a process.

    A pause is noted when the process stands still already, and its end before it goes on: in
    between it has certainly done nothing.
    """

    at: float
    process: str
    """A shard by its name in the ring, a sharder by that of its process."""
    kind: Happening


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A time in which something was away."""

    begin: float
    end: float = inf

    def touches(self, begin: float, end: float, *, after: float) -> bool:
        """Return whether it overlaps a period, or ended shortly before it."""
        return self.begin <= end and begin <= self.end + after


@dataclass(frozen=True, slots=True, kw_only=True)
class Down(Span):
    """A time in which a shard's process was away."""

    why: Happening


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request of a user that had no success, though nothing was wrong with it."""

    begin: float
    end: float
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """From when to when (monotonic seconds) a shard was at work on an object, by its own log."""

    object: str
    """With ring and resource: `checksum secrets demo/secret-1`."""
    shard: str
    began: float
    ended: float
    """Infinite if it has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All that was seen; writes in the order of revisions."""

    writes: Sequence[Write] = ()
    children: Sequence[Child] = ()
    leases: Sequence[Held] = ()
    events: Sequence[Event] = ()
    """In the order of time."""
    outages: Sequence[Span] = ()
    """Of the API server or etcd."""
    leading: Sequence[float] = ()
    """When the leader renewed its Lease, in the order of time."""
    refused: Sequence[Request] = ()
    works: Sequence[Work] = ()
    sent: Sequence[Sent] = ()
    fenced: Sequence[str] = ()
    """What shards were told whose writes the fence refused."""
    waiting: Collection[str] = ()
    """The uids of the objects that rightly have no shard in the end."""
