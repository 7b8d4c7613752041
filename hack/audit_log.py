"""The requests in the audit log of the API server, and the writes of shards among them.

Each shard has a token that is bound to a pod of the same name, so every request shows its shard.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from hack.ownership import OWNER
from hack.playground import SHARDS
from sharder.core.api.meta import Json, PartialObject

POD: Final = "authentication.kubernetes.io/pod-name"
SHARD: Final = f"system:serviceaccount:{SHARDS}:{SHARDS}"

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
    def is_foreign(self) -> bool:
        """Whether a shard was allowed to write an object that another shard owned.

        An acknowledgement is not foreign, although the object has no owner after it: it is the
        write that removes the owner label.
        """
        if self.response_status.code >= 400:
            return False
        labels = self.request_object.metadata.labels or {}
        acknowledges = OWNER in labels and labels[OWNER] is None
        owner = self.response_object.metadata.label(OWNER)
        return not acknowledges and owner not in ("", *self.user.extra.get(POD, ()))


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


def foreign_writes(lines: Iterable[bytes]) -> int:
    """Return how many writes of shards changed an object of another shard."""
    writes = [event for event in events(lines, _Event) if event.user.username == SHARD]
    return sum(event.is_foreign for event in writes)
