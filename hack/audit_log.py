"""The requests in the audit log of the API server, and the writes of shards among them.

Each shard has a token that is bound to a pod of the same name, so every request shows its shard.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
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

    username: str = ""
    extra: dict[str, list[str]] = {}


class Status(msgspec.Struct, frozen=True):
    """The status of an answer."""

    code: int = 0
    message: str = ""


class Reference(msgspec.Struct, frozen=True, rename="camel"):
    """The object or collection that a request is about; without a resource it is a path."""

    api_group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """A request, and what it was answered with."""

    verb: str = ""
    user: User = User()
    request_uri: str = msgspec.field(default="", name="requestURI")
    request_received_timestamp: datetime = datetime.min.replace(tzinfo=UTC)
    stage_timestamp: datetime = datetime.min.replace(tzinfo=UTC)
    object_ref: Reference = Reference()
    response_status: Status = Status()

    @property
    def at(self) -> float:
        """When it was answered."""
        return self.stage_timestamp.timestamp()

    @property
    def pod(self) -> str:
        """The pod of the token that it was sent with; empty if that is bound to none."""
        return self.user.extra.get(POD, [""])[0]


class _Metadata(msgspec.Struct, frozen=True):
    labels: dict[str, str | None] | None = None


class _Body(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


class _Write(Event, frozen=True, rename="camel"):
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
        return not acknowledges and owner not in ("", self.pod)


def audit_flags(policy: Path, log: Path) -> tuple[str, ...]:
    """Return flags that make the API server write `log` before it answers."""
    return (
        f"--audit-policy-file={policy}",
        f"--audit-log-path={log}",
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=10000",  # megabytes, so that the log stays one file
    )


class AuditLog:
    """The audit log of the requests that rules cover, for a control plane to be started."""

    def __init__(self, directory: Path, *rules: Json) -> None:
        """Keep policy and log in `directory`, which outlives the control plane."""
        self._policy, self._log = directory / "audit.json", directory / "audit.log"
        self._log.unlink(missing_ok=True)
        policy: Json = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [*rules, {"level": "None"}],
        }
        self._policy.write_text(json.dumps(policy))

    @property
    def flags(self) -> tuple[str, ...]:
        """For the API server, which writes each request down before it answers."""
        return audit_flags(self._policy, self._log)

    def events(self, kind: type[T]) -> Iterator[T]:
        """Yield the requests until now."""
        with self._log.open("rb") as lines:
            yield from events(lines, kind)


def events(lines: Iterable[bytes], kind: type[T]) -> Iterator[T]:
    """Yield the events in the lines of an audit log; an incomplete last line is skipped."""
    decoder = msgspec.json.Decoder(kind)
    return (decoder.decode(line) for line in lines if line.endswith(b"\n"))


def foreign_writes(lines: Iterable[bytes]) -> int:
    """Return how many writes of shards changed an object of another shard."""
    writes = [event for event in events(lines, _Write) if event.user.username == SHARD]
    return sum(event.is_foreign for event in writes)
