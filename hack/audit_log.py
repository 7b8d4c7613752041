"""The results of the writes of shards and users, from the audit log of the API server.

Each shard has a token that is bound to a pod of the same name, so every request shows its shard.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from hack.ownership import OWNER
from hack.playground import MANIFESTS, RING, SHARDS
from sharder.core.api.meta import Json, PartialObject
from sharder.core.fence.policy import policy_name
from sharder.core.names import RingName

POLICY: Final = MANIFESTS / "audit.yaml"
POD: Final = "authentication.kubernetes.io/pod-name"
SHARD: Final = f"system:serviceaccount:{SHARDS}:{SHARDS}"
FENCE: Final = f"'{policy_name(RingName(RING))}'"

T = TypeVar("T")


class User(msgspec.Struct, frozen=True):
    """Who has sent a request."""

    username: str
    extra: dict[str, list[str]] = {}


class Status(msgspec.Struct, frozen=True):
    """The status of an answer."""

    code: int = 0
    message: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    labels: dict[str, str | None] | None = None


class _Body(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    user: User
    response_status: Status = Status()
    request_object: _Body = _Body()
    response_object: PartialObject = PartialObject()

    @property
    def is_refused(self) -> bool:
        return self.response_status.code >= 400

    @property
    def is_foreign(self) -> bool:
        """Whether a shard has written an object that another shard owned.

        An acknowledgement is not foreign, although the object has no owner after it: it is the
        write that removes the owner label.
        """
        labels = self.request_object.metadata.labels or {}
        acknowledges = OWNER in labels and labels[OWNER] is None
        owner = self.response_object.metadata.label(OWNER)
        return not acknowledges and owner not in ("", *self.user.extra.get(POD, ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """The results of writes."""

    foreign: int = 0
    """Writes to objects of other shards that the API server has accepted."""
    fenced: tuple[str, ...] = ()
    """The messages about writes that the fence rejected."""
    users_refused: tuple[str, ...] = ()
    """The messages about rejected writes of users."""


def audit_flags(policy: Path, log: Path) -> tuple[str, ...]:
    """Return flags that make the API server write `log` before it answers."""
    return (
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log}",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=10000",  # megabytes, so that the log stays one file
    )


def audit_policy(*rules: Json) -> str:
    """Return an audit policy that only logs answers to the requests that a rule covers."""
    policy: Json = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [*rules, {"level": "None"}],
    }
    return json.dumps(policy)


def events(lines: Iterable[bytes], kind: type[T]) -> Iterator[T]:
    """Yield the events in the lines of an audit log; an incomplete last line is skipped."""
    decoder = msgspec.json.Decoder(kind)
    return (decoder.decode(line) for line in lines if line.endswith(b"\n"))


def writes_in(lines: Iterable[bytes]) -> Writes:
    """Return the results of the writes in these lines of an audit log."""
    writes = list(events(lines, _Event))
    shards = [event for event in writes if event.user.username == SHARD]
    refused = [event for event in writes if event.is_refused]
    return Writes(
        foreign=sum(event.is_foreign for event in shards if not event.is_refused),
        fenced=tuple(
            event.response_status.message
            for event in refused
            if event.user.username == SHARD and FENCE in event.response_status.message
        ),
        users_refused=tuple(
            event.response_status.message for event in refused if event.user.username != SHARD
        ),
    )
