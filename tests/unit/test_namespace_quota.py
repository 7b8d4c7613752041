"""What examples/namespace-quota does to the cluster."""

import runpy
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from sharder.sdk import Document, NotFound, Settings, Shard
from sharder.sdk.testing import SETTINGS, FakeCluster, ShardTest, custom
from tests.support.documents import ROOT

EXAMPLE = runpy.run_path(str(ROOT / "examples/namespace-quota/controller.py"))
GRANTS: str = EXAMPLE["GRANTS"]
SIZE: str = EXAMPLE["SIZE"]
GRANT = {
    "apiVersion": "quota.example.com/v1",
    "kind": "QuotaGrant",
    "metadata": {"name": "tests", "namespace": "team"},
    "spec": {"limits": {"pods": 5}},
}


@pytest.fixture
async def test() -> AsyncIterator[ShardTest]:
    """The example at work on a Namespace `team` of size small."""
    make_shard: Callable[[Settings], Shard] = EXAMPLE["make_shard"]
    cluster = FakeCluster(custom(GRANTS, kind="QuotaGrant"))
    async with ShardTest(make_shard(SETTINGS), cluster) as running:
        await running.create(
            {"kind": "Namespace", "metadata": {"name": "team", "labels": {SIZE: "small"}}}
        )
        yield running


def condition(of: Document) -> tuple[str, str, str]:
    """Return the type, the status and the message of the only condition."""
    status = of["status"]
    assert isinstance(status, Mapping)
    conditions = status["conditions"]
    assert isinstance(conditions, list)
    (only,) = conditions
    assert isinstance(only, Mapping)
    return str(only["type"]), str(only["status"]), str(only["message"])


async def events(test: ShardTest) -> list[tuple[object, object]]:
    """Return the reasons of all Events, and how often each was recorded."""
    return [(each["reason"], each["count"]) for each in await test.cluster.list("events")]


async def resize(test: ShardTest, size: str) -> None:
    labels = {"metadata": {"labels": {SIZE: size}}}
    await test.cluster.patch("namespaces", "team", labels)


async def test_another_size_is_another_quota(test: ShardTest) -> None:
    await resize(test, "large")

    quota = await test.cluster.get("configmaps", "team/quota")
    namespace = await test.cluster.get("namespaces", "team")

    assert quota["data"] == {"pods": "100", "secrets": "200"}
    assert condition(namespace) == ("QuotaSet", "True", "size large")


async def test_an_unknown_size_is_reported_and_changes_no_quota(test: ShardTest) -> None:
    await resize(test, "huge")

    quota = await test.cluster.get("configmaps", "team/quota")
    namespace = await test.cluster.get("namespaces", "team")

    assert quota["data"] == {"pods": "10", "secrets": "20"}
    assert condition(namespace) == ("QuotaSet", "False", "size 'huge' is not one of small, large")
    assert await events(test) == [("Refused", 1)]


async def test_a_grant_has_a_config_map_and_says_so_once(test: ShardTest) -> None:
    await test.create(GRANT)
    await test.cluster.patch(GRANTS, "team/tests", {"spec": {"limits": {"pods": 6}}})

    extra = await test.cluster.get("configmaps", "team/quota-tests")
    grant = await test.cluster.get(GRANTS, "team/tests")

    assert extra["data"] == {"pods": "6"}
    assert condition(grant) == ("Granted", "True", "")
    assert await events(test) == [("Granted", 1)]


async def test_a_grant_of_what_has_no_quota_is_refused(test: ShardTest) -> None:
    await test.create({**GRANT, "spec": {"limits": {"nodes": 1}}})

    grant = await test.cluster.get(GRANTS, "team/tests")

    assert condition(grant) == ("Granted", "False", "there is no quota of nodes")
    with pytest.raises(NotFound):
        await test.cluster.get("configmaps", "team/quota-tests")


async def test_a_grant_is_gone_when_its_config_map_is(test: ShardTest) -> None:
    held = {"metadata": {"finalizers": ["example.com/in-use"]}}
    await test.create(GRANT)
    await test.cluster.patch("configmaps", "team/quota-tests", held)

    await test.cluster.delete(GRANTS, "team/tests")
    before = await test.cluster.list(GRANTS)
    await test.cluster.patch("configmaps", "team/quota-tests", {"metadata": {"finalizers": None}})

    assert (len(before), await test.cluster.list(GRANTS)) == (1, [])


async def test_a_reconcile_that_changes_nothing_sends_no_request(test: ShardTest) -> None:
    await test.create(GRANT)
    test.cluster.requests.clear()

    labelled = {"metadata": {"labels": {"seen": "true"}}}
    changed = await test.cluster.patch("configmaps", "team/quota-tests", labelled)

    assert test.cluster.requests == []
    assert await test.cluster.get("configmaps", "team/quota-tests") == changed
