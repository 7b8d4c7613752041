"""Facts about `tests.e2e.writers`: it finds each write by a shard that is not the owner."""

import json
from datetime import UTC, datetime
from pathlib import Path

from hack.audit_log import POD, SHARD
from hack.ownership import OWNER
from sharder.core.api.meta import ObjectMeta, OwnerReference, PartialObject
from tests.e2e.trace import Trace, Write
from tests.e2e.writers import WriteLog, foreign_writes

UID = "uid-of-the-secret"


def owned(revision: int, owner: str) -> Write:
    """Return the write that left the Secret to a shard, to none if that is empty."""
    labels = {OWNER: owner} if owner else {}
    metadata = ObjectMeta(uid=UID, resource_version=str(revision), labels=labels)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Write(revision=revision, obj=PartialObject(metadata=metadata), seen=now)


def child(revision: int) -> PartialObject:
    controller = OwnerReference(uid=UID, controller=True)
    return PartialObject(
        metadata=ObjectMeta(
            name="child", resource_version=str(revision), owner_references=[controller]
        )
    )


MOVED = Trace(secrets=[owned(1, "a"), owned(5, ""), owned(7, "b")]).owner_before


def test_the_owner_of_the_moment_may_write() -> None:
    assert foreign_writes([("a", child(2)), ("b", child(8))], MOVED) == []


def test_a_write_by_the_shard_before_is_found() -> None:
    assert foreign_writes([("a", child(8))], MOVED) == ["child: by a, owned by b"]


def test_a_write_to_what_has_no_owner_is_found() -> None:
    assert foreign_writes([("a", child(6))], MOVED) == ["child: by a, owned by none"]


def test_an_acknowledgement_is_a_write_of_the_owner() -> None:
    assert foreign_writes([("a", owned(5, "").obj)], MOVED) == []


def test_an_answer_with_the_revision_that_another_has_made_is_no_write() -> None:
    assert foreign_writes([("a", child(2)), ("b", child(2)), ("", child(6))], MOVED) == []
    assert foreign_writes([("", child(6)), ("b", child(6))], MOVED) == []


def test_only_successful_writes_count_and_each_shard_is_its_pod(
    tmp_path: Path,
) -> None:
    log = WriteLog(tmp_path)
    answer = {"metadata": {"name": "child", "resourceVersion": "8"}}
    shard = {"username": SHARD, "extra": {POD: ["a"]}}
    requests = [
        {"user": shard, "responseStatus": {"code": 201}, "responseObject": answer},
        {"user": shard, "responseStatus": {"code": 409}, "responseObject": {"kind": "Status"}},
        {"user": {"username": "b"}, "responseStatus": {"code": 200}, "responseObject": answer},
    ]
    (tmp_path / "log").write_text("".join(f"{json.dumps(each)}\n" for each in requests))

    written = [(who, obj.metadata.name) for who, obj in log.answers()]

    assert written == [("a", "child"), ("", "child")]


def test_what_an_admission_policy_refused_is_reported_by_shard(tmp_path: Path) -> None:
    shard = {"username": SHARD, "extra": {POD: ["a"]}}
    policy = "ValidatingAdmissionPolicy 'fence' denied request: not yours"
    requests = [
        {"user": shard, "responseStatus": {"code": 403, "message": policy}},
        {"user": shard, "responseStatus": {"code": 403, "message": "no right to patch"}},
        {"user": {"username": "b"}, "responseStatus": {"code": 403, "message": policy}},
    ]
    unfinished = '{"user"'
    log = WriteLog(tmp_path)
    lines = "".join(f"{json.dumps(each)}\n" for each in requests)
    (tmp_path / "log").write_text(lines + unfinished)

    assert list(log.refusals()) == [("a", policy)]
