"""What the main job promises, read off one story of 800 objects (`tests.e2e.story`)."""

import asyncio

import pytest

from hack.control_plane import ControlPlane
from sharder.core.keys import main_key
from sharder.core.names import ShardName
from sharder.core.placement.hash_ring import HashRing
from tests.e2e.story import DEFAULT_SECONDS, LEASE_SECONDS, OBJECTS, Change, Story, play

FIRST_RING = HashRing(map(ShardName, ("shard-0", "shard-1", "shard-2")))
SECOND_RING = HashRing(map(ShardName, ("shard-0", "shard-1", "shard-2", "shard-3")))


def seconds_of_waiting(story: Story, change: Change) -> float:
    """Return the time of a change beyond that of its bare writes: a Secret and its ConfigMap.

    The promise is about waiting; how long so many writes take is the machine's affair, and is
    measured in the same run.  The machine does other things meanwhile, so what is asserted is
    only how many Leases were waited for.
    """
    return change.seconds - 2 * len(change.moved) / story.writes_per_second


def _summary(story: Story) -> str:
    changes = {
        "join": story.join,
        "kill": story.kill,
        "clean stop": story.leave,
        "kill with default Leases": story.default_kill,
    }
    told = [f"{k} {c.seconds:.1f} s ({len(c.moved)} moved)" for k, c in changes.items()]
    return (
        f"\n{OBJECTS} objects, {story.writes_per_second:.0f} bare writes/s: {', '.join(told)}, "
        f"dead Lease deleted after {story.dead_lease_seconds:.1f} s"
    )


@pytest.fixture(scope="module")
def story(request: pytest.FixtureRequest) -> Story:
    with ControlPlane() as plane:
        story = asyncio.run(play(plane))
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(_summary(story))  # noqa: T201 - figures to compare from run to run
    return story


def test_every_object_is_created_with_the_owner_that_the_ring_wants(story: Story) -> None:
    at_creation = [story.trace.first(f"secret-{index:04}") for index in range(OBJECTS)]

    assert [w.owner for w in at_creation] == [
        FIRST_RING.owner(main_key(w.obj)) for w in at_creation
    ]


def test_a_shard_that_joins_drains_exactly_what_the_ring_moves(story: Story) -> None:
    moving = {
        secret.metadata.name
        for secret in story.created.secrets.values()
        if FIRST_RING.owner(main_key(secret)) != SECOND_RING.owner(main_key(secret))
    }

    assert (set(story.join.drained), set(story.join.moved)) == (moving, moving)


def test_everything_that_was_drained_arrives_at_the_shard_that_joined(story: Story) -> None:
    assert set(story.join.moved.values()) == {"shard-3"}


def test_a_killed_shards_objects_have_live_owners_after_two_durations(story: Story) -> None:
    assert seconds_of_waiting(story, story.kill) < 4 * LEASE_SECONDS


def test_only_a_killed_shards_objects_move(story: Story) -> None:
    assert len(story.kill.moved) == story.kill.before.shares()["shard-1"] > 0


def test_with_default_leases_a_killed_shard_is_replaced_after_two_durations(story: Story) -> None:
    assert story.default_kill.seconds >= 2 * DEFAULT_SECONDS - 5
    assert seconds_of_waiting(story, story.default_kill) < 3 * DEFAULT_SECONDS


def test_after_a_clean_stop_no_object_waits_for_a_lease(story: Story) -> None:
    # It takes two durations to find a shard dead.
    assert seconds_of_waiting(story, story.leave) < 1.5 * LEASE_SECONDS


def test_a_clean_stop_ends_with_exit_code_0(story: Story) -> None:
    assert story.exit_code == 0


def test_no_object_is_drained_when_a_shard_is_lost(story: Story) -> None:
    assert (story.kill.drained, story.leave.drained) == (frozenset(), frozenset())


def test_a_dead_lease_is_deleted_a_minute_after_it_ran_out(story: Story) -> None:
    assert 60 <= story.dead_lease_seconds <= 90


def test_no_object_is_taken_from_a_working_shard(story: Story) -> None:
    assert story.trace.robberies() == []


def test_no_checksums_leave_their_shard_before_their_secret(story: Story) -> None:
    assert story.trace.early_leavers() == []


def test_no_checksums_are_created_twice(story: Story) -> None:
    births = story.trace.births()

    assert (len(births), set(births.values())) == (OBJECTS, {1})


def test_all_checksums_end_beside_their_secrets(story: Story) -> None:
    assert story.default_kill.after.strays() == []
