"""Three replicas of the example namespace-quota are killed, replaced and drained (`quotas`).

What they wrote is read off the audit log of the API server, in the order of etcd's revisions.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hack.control_plane import ControlPlane
from sharder.core.api.meta import Json
from tests.e2e.quotas import ACCOUNT, FINALIZER, FIRST_TEAMS, OWNER, SHARDS, Story, play
from tests.e2e.writers import Request, WriteLog, foreign_writes

RULE: Json = {
    "verbs": ["create", "update", "patch", "delete"],
    "resources": [
        {"group": "", "resources": ["namespaces", "namespaces/status", "configmaps"]},
        {"group": "quota.example.com", "resources": ["quotagrants", "quotagrants/status"]},
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What happened, and all writes in the order of the log, each with its shard."""

    story: Story
    writes: tuple[tuple[str, Request], ...]
    log: WriteLog

    def by_shards(self, resource: str, *verbs: str) -> Iterator[Request]:
        """Yield the writes of shards to a resource that were done."""
        for shard, request in self.writes:
            is_wanted = request.about.resource == resource and request.verb in verbs
            if shard and is_wanted and request.succeeded:
                yield request


def key(request: Request) -> str:
    """Return the namespace and the name of what was written."""
    found = request.response_object.metadata
    return f"{request.about.namespace}/{request.about.name or found.name}"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    log = WriteLog(tmp_path_factory.mktemp("audit"), rule=RULE, account=ACCOUNT)
    with ControlPlane(apiserver_flags=log.flags) as plane:
        story = asyncio.run(play(plane))
    writes = tuple((shard, each) for shard, each in log.requests())
    return Played(story=story, writes=writes, log=log)


def test_three_replicas_share_namespaces_and_grants(played: Played) -> None:
    shares = played.story.begun.shares()

    assert shares.keys() == set(SHARDS[:3])
    assert shares.total() == 2 * FIRST_TEAMS


def test_users_wrote_while_shards_were_killed_replaced_and_drained(played: Played) -> None:
    people = played.story.people

    assert len(people.sizes) > FIRST_TEAMS
    assert played.story.lost < people.ended
    assert "large" in people.sizes.values()


def test_no_child_is_created_twice(played: Played) -> None:
    created = Counter(key(each) for each in played.by_shards("configmaps", "create"))

    assert created.keys() >= played.story.people.wanted().keys()
    assert {name: many for name, many in created.items() if many > 1} == {}


def test_no_two_shards_try_to_create_one_child(played: Played) -> None:
    creators = defaultdict[str, set[str]](set)
    for shard, request in played.writes:
        if shard and request.about.resource == "configmaps" and request.verb == "create":
            creators[key(request)].add(shard)

    assert {name: shards for name, shards in creators.items() if len(shards) > 1} == {}


def test_no_shard_writes_what_it_does_not_own(played: Played) -> None:
    owners = defaultdict[str, list[tuple[int, str]]](list)
    for _, obj in played.log.answers():
        meta = obj.metadata
        owners[meta.uid].append((int(meta.resource_version), meta.label(OWNER)))

    def owner_before(uid: str, revision: int) -> str:
        before = [each for each in sorted(owners[uid]) if each[0] < revision]
        return before[-1][1] if before else ""

    assert {owner for each in owners.values() for _, owner in each} >= set(SHARDS)
    assert foreign_writes(played.log.answers(), owner_before) == []


def test_no_finalizer_is_forgotten(played: Played) -> None:
    held, released = set[str](), set[str]()
    for shard, request in played.writes:
        if request.about.resource != "quotagrants":
            continue
        if request.verb == "delete" and request.response_object.metadata.has_finalizer(FINALIZER):
            held.add(key(request))
        # Without an answer if the watch was faster: then the shard has cancelled the request.
        elif shard and request.request_object.metadata.finalizers == []:
            released.add(key(request))

    assert played.story.lost <= held
    assert released == held


def test_a_grant_has_its_finalizer_before_its_child_is_created(played: Played) -> None:
    protected, early = set[str](), list[str]()
    for shard, request in played.writes:
        meta = request.response_object.metadata
        if meta.has_finalizer(FINALIZER):
            protected.add(meta.uid)
        by = meta.controller
        is_birth = shard and request.verb == "create" and by and by.kind == "QuotaGrant"
        if is_birth and by and by.uid not in protected:
            early.append(key(request))

    assert len(protected) >= FIRST_TEAMS
    assert early == []


def test_the_child_of_a_grant_is_deleted_before_the_grant_is_gone(played: Played) -> None:
    children, early = set[str](), list[str]()
    for shard, request in played.writes:
        if not shard or not request.succeeded:
            continue
        child = key(request).replace("/quota-", "/")
        match request.about.resource, request.verb:
            case "configmaps", "create":
                children.add(child)
            case "configmaps", "delete":
                children.discard(child)
            case "quotagrants", "patch" if request.request_object.metadata.finalizers == []:
                early += children & {key(request)}

    assert played.story.people.grants.keys() <= children
    assert early == []


def test_shards_that_are_replaced_hand_over_everything_and_end_well(played: Played) -> None:
    assert played.story.exit_codes == (0, 0)
    assert played.story.evacuated == (True, True)


def test_every_namespace_and_grant_reports_that_its_quota_is_kept(played: Played) -> None:
    reports = Counter(
        (condition.type, condition.status)
        for main in played.story.ended.mains.values()
        for condition in main.status.conditions
    )
    people = played.story.people

    assert reports == {
        ("QuotaSet", "True"): len(people.sizes),
        ("Granted", "True"): len(people.grants),
    }
