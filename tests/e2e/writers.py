"""Which shard wrote what, read off the audit log of the API server.

Each shard has a token of a pod of its own name, so every request tells whose it is.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hack.audit_log import SHARD, AuditLog, Event
from hack.playground import NAMESPACE
from sharder.core.api.meta import Json
from sharder.shard.objects import OwnObject
from tests.history.traces import Child, Sent, Trace, Write

STORY: Final[Json] = {
    "namespaces": [NAMESPACE],
    "verbs": ["create", "update", "patch"],
    "resources": [{"group": "", "resources": ["secrets", "configmaps"]}],
}
"""The writes to Secrets and ConfigMaps of the playground, as a rule of an audit policy."""


class Request(Event, frozen=True, rename="camel"):
    """A write, and what it was answered with."""

    response_object: OwnObject = OwnObject()
    """A Status after a failure, and after a deletion without finalizers."""

    @property
    def succeeded(self) -> bool:
        """Whether the API server has done it."""
        return 200 <= self.response_status.code < 300

    def shard(self, account: str) -> str:
        """Return the shard that sent it, empty if the user is not the shards' `account`."""
        return self.pod if self.user.username == account else ""


class WriteLog(AuditLog):
    """The audit log of some writes."""

    def __init__(self, directory: Path, *, rule: Json = STORY, account: str = SHARD) -> None:
        """Keep policy and log.

        Args:
            directory: Outlives the control plane.
            rule: Which writes are logged, as a rule of an audit policy without its level.
            account: The user name of the shards.
        """
        assert isinstance(rule, dict)
        super().__init__(directory, {"level": "RequestResponse", **rule})
        self._account = account

    def requests(self) -> Iterator[tuple[str, Request]]:
        """Yield all writes, and by which shard, "" for anyone else."""
        for request in self.events(Request):
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

    def trace(self, *owner_labels: str) -> Trace:
        """Return what the log says of main objects, their children, and who wrote them."""
        writes, children = list[Write](), list[Child]()
        for _, request in self.requests():
            meta, at = request.response_object.metadata, request.at
            if not request.succeeded or not meta.resource_version:
                continue
            revision = int(meta.resource_version)
            owner = next(filter(None, map(meta.label, owner_labels)), "")
            if meta.controller is None:
                writes.append(
                    Write(
                        revision=revision, at=at, uid=meta.uid, name=meta.name, owner=owner,
                        draining=False, stamp="",
                    )
                )  # fmt: skip
            else:
                children.append(
                    Child(
                        revision=revision, at=at, uid=meta.uid, name=meta.name,
                        parent=meta.controller.uid, owner=owner, deleted=request.verb == "delete",
                    )
                )  # fmt: skip
        return Trace(
            writes=sorted(writes, key=lambda write: write.revision), sent=list(self.sent()),
            children=children, leases=(), events=(), outages=(), leading=(),
        )  # fmt: skip

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Yield which shard was refused a write by an admission policy, and what it was told."""
        for shard, request in self.requests():
            status = request.response_status
            if shard and status.code == 403 and "denied request" in status.message:
                yield shard, status.message
