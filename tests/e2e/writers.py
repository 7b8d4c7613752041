"""Which shard wrote what, read off the audit log of the API server.

Each shard has a token of a pod of its own name, so every request tells whose it is.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from hack.audit_log import POD, SHARD, audit_flags, audit_policy, events
from hack.playground import NAMESPACE
from sharder.core.api.meta import Json
from sharder.shard.objects import OwnObject
from tests.history.traces import Sent

STORY: Final[Json] = {
    "namespaces": [NAMESPACE],
    "verbs": ["create", "update", "patch"],
    "resources": [{"group": "", "resources": ["secrets", "configmaps"]}],
}
"""The writes to Secrets and ConfigMaps of the playground, as a rule of an audit policy."""


class _User(msgspec.Struct, frozen=True):
    username: str
    extra: dict[str, list[str]] = {}


class _Status(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class _Reference(msgspec.Struct, frozen=True):
    resource: str = ""
    namespace: str = ""
    name: str = ""


class _SentMeta(msgspec.Struct, frozen=True):
    finalizers: list[str] | None = None


class _Sent(msgspec.Struct, frozen=True):
    metadata: _SentMeta = _SentMeta()


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """A write, and what it was answered with."""

    user: _User
    verb: str = ""
    stage_timestamp: datetime = datetime.min.replace(tzinfo=UTC)
    about: _Reference = msgspec.field(default=_Reference(), name="objectRef")
    request_object: _Sent = _Sent()
    """The object of a create, and the body of a patch."""
    response_status: _Status = _Status()
    response_object: OwnObject = OwnObject()
    """A Status after a failure, and after a deletion without finalizers."""

    @property
    def at(self) -> float:
        """When it was answered."""
        return self.stage_timestamp.timestamp()

    @property
    def succeeded(self) -> bool:
        """Whether the API server has done it."""
        return 200 <= self.response_status.code < 300

    def shard(self, account: str) -> str:
        """Return the shard that sent it, empty if the user is not the shards' `account`."""
        return self.user.extra[POD][0] if self.user.username == account else ""


class WriteLog:
    """The audit log of some writes, for a control plane to be started."""

    def __init__(self, directory: Path, *, rule: Json = STORY, account: str = SHARD) -> None:
        """Keep policy and log in `directory`.

        Args:
            directory: Outlives the control plane.
            rule: Which writes are logged, as a rule of an audit policy without its level.
            account: The user name of the shards.
        """
        self._policy, self._log = directory / "policy.json", directory / "log"
        self._account = account
        assert isinstance(rule, dict)
        self._policy.write_text(audit_policy({"level": "RequestResponse", **rule}))

    @property
    def flags(self) -> tuple[str, ...]:
        """For the API server, which writes each request down before it answers."""
        return audit_flags(self._policy, self._log)

    def requests(self) -> Iterator[tuple[str, Request]]:
        """Yield all writes, and by which shard, "" for anyone else."""
        with self._log.open("rb") as lines:
            for request in events(lines, Request):
                yield request.shard(self._account), request

    def answers(self) -> Iterator[tuple[str, OwnObject]]:
        """Yield what writes were answered with, and to which shard, "" for anyone else."""
        for shard, request in self.requests():
            if request.succeeded and request.response_object.metadata.resource_version:
                yield shard, request.response_object

    def sent(self) -> Iterator[Sent]:
        """Yield the writes that had success."""
        for shard, obj in self.answers():
            meta = obj.metadata
            parent = meta.controller.uid if meta.controller else ""
            revision = int(meta.resource_version)
            yield Sent(revision=revision, shard=shard, uid=meta.uid, name=meta.name, parent=parent)

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Yield which shard was refused a write by an admission policy, and what it was told."""
        for shard, request in self.requests():
            status = request.response_status
            if shard and status.code == 403 and "denied request" in status.message:
                yield shard, status.message
