"""Which shard wrote what, read off the audit log of the API server.

Each shard has a token of a pod of its own name, so every request tells whose it is.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from hack.playground import NAMESPACE, SHARDS
from sharder.core.api.meta import PartialObject
from tests.e2e.trace import Trace

POD: Final = "authentication.kubernetes.io/pod-name"
SHARD: Final = f"system:serviceaccount:{SHARDS}:checksum-controller"


class _User(msgspec.Struct, frozen=True):
    username: str
    extra: dict[str, list[str]] = {}


class _Status(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    user: _User
    response_status: _Status = _Status()
    response_object: PartialObject = PartialObject()

    @property
    def shard(self) -> str:
        """The shard that sent it, empty for anyone else."""
        return self.user.extra[POD][0] if self.user.username == SHARD else ""


class WriteLog:
    """The audit log of all writes to the story's objects, for a control plane to be started."""

    def __init__(self, directory: Path) -> None:
        """Keep policy and log in `directory`."""
        self._policy, self._log = directory / "policy.json", directory / "log"
        rule = {
            "level": "RequestResponse",
            "namespaces": [NAMESPACE],
            "verbs": ["create", "update", "patch"],
            "resources": [{"group": "", "resources": ["secrets", "configmaps"]}],
        }
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [rule, {"level": "None"}],
        }
        self._policy.write_text(json.dumps(policy))

    @property
    def flags(self) -> tuple[str, ...]:
        """For the API server, which answers a request when it has written it down."""
        return (
            f"--audit-policy-file={self._policy}",
            f"--audit-log-path={self._log}",
            "--audit-log-mode=blocking",
            "--audit-log-maxsize=10000",  # megabytes, that it stays one file
        )

    def answers(self) -> Iterator[tuple[str, PartialObject]]:
        """Yield what writes were answered with, and to which shard, "" for anyone else."""
        for request in self._requests():
            if 200 <= request.response_status.code < 300:
                yield request.shard, request.response_object

    def refusals(self) -> Iterator[tuple[str, str]]:
        """Yield which shard was refused a write by an admission policy, and what it was told."""
        for request in self._requests():
            status = request.response_status
            if request.shard and status.code == 403 and "denied request" in status.message:
                yield request.shard, status.message

    def _requests(self) -> Iterator[_Request]:
        decoder = msgspec.json.Decoder(_Request)
        with self._log.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):  # else it is just being written
                    yield decoder.decode(line)


def foreign_writes(answers: Iterable[tuple[str, PartialObject]], trace: Trace) -> list[str]:
    """Return the writes of shards to what another one owned, or none, by the Secret's label."""
    writers = defaultdict[int, set[str]](set)
    objects: dict[int, PartialObject] = {}
    for shard, obj in answers:
        revision = int(obj.metadata.resource_version)
        # A write that changes nothing is answered with the revision that another write has made.
        writers[revision].add(shard)
        objects[revision] = obj
    found: list[str] = []
    for revision, obj in sorted(objects.items()):
        controller = obj.metadata.controller
        secret = controller.uid if controller else obj.metadata.uid
        owner = trace.owner_before(secret, revision)
        if not writers[revision] & {owner, ""}:
            names = ", ".join(sorted(writers[revision]))
            found.append(f"{obj.metadata.name}: by {names}, owned by {owner or 'none'}")
    return found
