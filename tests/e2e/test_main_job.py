"""What the main job promises, read off a story of each cast (`tests.e2e.story`).

The shards in Go are `tests/compat/goshard`, on client-go's leader election alone, and
`tests/compat/libshard`, on the library of kubernetes-controller-sharding as its users have it:
what is true of all is true of the protocol, and not only of our SDK.
"""

import asyncio
import hashlib

import pytest

from hack.control_plane import ControlPlane
from sharder.core.keys import main_key
from sharder.core.names import ShardName
from sharder.core.placement.strategies.hashing import HashRing
from tests.e2e.story import (
    CLIENT_GO,
    LEASE_SECONDS,
    LIBRARY,
    NAMES,
    OBJECTS,
    PYTHON,
    Change,
    Story,
    play,
)
from tests.e2e.writers import WriteLog
from tests.history.etcd import APISERVER_FLAGS


@pytest.fixture(scope="module", params=[PYTHON, CLIENT_GO, LIBRARY], ids=lambda cast: cast.kind)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Story:
    log = WriteLog(tmp_path_factory.mktemp("audit"))
    plane = ControlPlane(apiserver_flags=(*APISERVER_FLAGS, *log.flags))
    with pytest.MonkeyPatch.context() as environment, plane:
        # Its processes are timed, so they are not traced; other tests cover the same lines.
        environment.delenv("COVERAGE_PROCESS_CONFIG", raising=False)
        story = asyncio.run(play(plane, request.param, log))
    changes = {"the cast joins": story.go_joins, "Python joins": story.python_joins}
    changes |= {"clean stop": story.stop, "kill": story.kill}
    changes |= {"pause": story.pause}
    told = [f"{k} {c.seconds:.1f} s ({len(c.moved)} moved)" for k, c in changes.items()]
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        scene = f"{story.cast.kind} beside Python, {story.writes_per_second:.0f} creates/s"
        print(f"\n{OBJECTS} objects, {scene}: {', '.join(told)}")  # noqa: T201
    return story


def moves(change: Change, *shards: str) -> dict[str, str | None]:
    """Return what has to move, and where to, when `shards` are all there are."""
    ring = HashRing(map(ShardName, shards))
    return {
        secret.metadata.name: ring.owner(main_key(secret))
        for uid, secret in change.before.secrets.items()
        if ring.owner(main_key(secret)) != change.before.owner(uid)
    }


def givers(change: Change) -> set[str]:
    """Return the shards that owned something that moved."""
    secrets = change.before.secrets.items()
    return {change.before.owner(u) for u, s in secrets if s.metadata.name in change.moved}


def test_every_object_is_created_with_the_owner_that_the_ring_wants(story: Story) -> None:
    ring = HashRing(map(ShardName, story.cast.first))
    secrets = story.created.secrets.values()

    assert story.first == {s.metadata.name: ring.owner(main_key(s)) for s in secrets}
    assert story.first.keys() == set(NAMES)


def test_a_change_of_a_secret_is_seen_by_a_shard(story: Story) -> None:
    assert story.checksums["changed"] == hashlib.sha256(b"once").hexdigest()


@pytest.mark.parametrize("joiner", ["of the cast", "in Python"])
def test_a_shard_that_joins_gets_what_the_ring_moves_from_all_others_and_nothing_else(
    story: Story, joiner: str
) -> None:
    first, second = story.cast.first, story.cast.name(1)
    there, name, change = (
        (first, second, story.go_joins)
        if joiner == "of the cast"
        else ({*first, second}, "py-2", story.python_joins)
    )

    wanted = moves(change, *there, name)
    assert change.moved == wanted
    assert change.drained == wanted.keys()
    assert givers(change) == there
    assert set(change.moved.values()) == {name}


def test_nothing_moves_while_a_lease_gets_back_the_label_that_it_lost(story: Story) -> None:
    before, after = story.unlabelled

    assert {uid: after.owner(uid) for uid in after.secrets} == {
        uid: before.owner(uid) for uid in before.secrets
    }


def test_a_clean_stop_of_a_shard_moves_its_objects_before_its_lease_could_expire(
    story: Story,
) -> None:
    assert len(story.stop.moved) == story.stop.before.shares()[story.cast.name(1)] > 0
    # It takes two durations to find a shard dead.
    assert story.stop.seconds < 1.5 * LEASE_SECONDS


def test_a_clean_stop_of_a_shard_ends_with_exit_code_0(story: Story) -> None:
    assert story.exit_code == 0


def test_a_shard_ends_when_another_holder_stands_in_its_lease(story: Story) -> None:
    assert story.robbed_exit_code == 1


def test_a_killed_shard_in_go_is_replaced_within_two_durations(story: Story) -> None:
    # The promise is about waiting; a Secret and its ConfigMap take as long as the machine needs.
    writing = 2 * len(story.kill.moved) / story.writes_per_second

    assert len(story.kill.moved) == story.kill.before.shares()[story.cast.name(0)] > 0
    assert story.kill.seconds - writing < 4 * LEASE_SECONDS


def test_a_shard_that_stands_still_loses_its_objects_and_no_other_loses_any(story: Story) -> None:
    assert givers(story.pause) == {story.cast.name(3)}
    assert len(story.pause.moved) == story.pause.before.shares()[story.cast.name(3)] > 0


def test_a_shard_that_stood_still_ends_when_it_goes_on_and_writes_nothing(story: Story) -> None:
    assert (story.paused_exit_code, story.written_late) == (1, set())


def test_no_object_is_drained_when_a_shard_is_lost(story: Story) -> None:
    drained = [change.drained for change in (story.stop, story.pause, story.kill)]

    assert drained == [frozenset()] * 3


def test_no_object_is_taken_from_a_working_shard(story: Story) -> None:
    assert story.verdict.unacknowledged == []


def test_no_shard_writes_an_object_of_another(story: Story) -> None:
    assert story.verdict.foreign == []


def test_no_checksums_are_left_behind_or_created_twice(story: Story) -> None:
    assert (story.verdict.behind, story.verdict.born_twice) == ([], [])
    assert story.kill.after.strays() == []
