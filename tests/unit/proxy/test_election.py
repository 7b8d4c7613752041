"""The Lock of the controller: every process leads, but none that has lost its shard."""

import json

import pytest

from sharder.core.names import ObjectRef
from sharder.proxy.bodies import PROTOBUF
from sharder.proxy.election import USUAL_SECONDS, Lock
from sharder.proxy.targets import Target, Verb
from sharder.sdk.testing.fake_clock import FakeClock
from sharder.shard.rights import LEASES

REF = ObjectRef("demo", "lock")


def asked(lock: Lock) -> int:
    answer = lock.answer(Target(Verb.GET, LEASES, REF), b"", "")
    assert answer is not None
    return answer[0]


def renewed(lock: Lock, holder: str, **spec: object) -> int:
    body = {"metadata": {"name": "lock"}, "spec": {"holderIdentity": holder, **spec}}
    answer = lock.answer(
        Target(Verb.WRITE, LEASES, REF), json.dumps(body).encode(), "application/json"
    )
    assert answer is not None
    return answer[0]


@pytest.fixture
def lock(clock: FakeClock) -> Lock:
    lock = Lock(clock)
    assert asked(lock) == 404
    return lock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_who_has_lost_its_shard_leads_no_more_until_it_must_have_ended(
    lock: Lock, clock: FakeClock
) -> None:
    assert renewed(lock, "one", leaseDurationSeconds=40) == 200
    lock.lose()
    await clock.advance(60)  # it stands still
    assert renewed(lock, "one") == 409
    await clock.advance(39)
    assert renewed(lock, "one") == 409
    await clock.advance(41)  # and again
    assert renewed(lock, "one") == 409
    assert renewed(lock, "two") == 200


async def test_who_led_behind_another_proxy_ends_itself(clock: FakeClock) -> None:
    lock, heartbeat = Lock(clock), Target(Verb.WRITE, LEASES, ObjectRef("demo", "other"))
    assert lock.answer(heartbeat, b"{}", "application/json") is None

    assert renewed(lock, "one", leaseDurationSeconds=40) == 409, "its caches are older"
    assert lock.is_late(10), "nobody leads"
    await clock.advance(39)
    assert (asked(lock), renewed(lock, "one")) == (200, 409)
    assert renewed(lock, "two") == 200


async def test_who_gives_the_lock_up_lets_the_next_one_lead_at_once(lock: Lock) -> None:
    renewed(lock, "one", leaseDurationSeconds=40)
    assert renewed(lock, "", leaseDurationSeconds=1) == 200
    answer = lock.answer(Target(Verb.GET, LEASES, REF), b"", "")
    assert answer is not None
    assert json.loads(answer[1])["spec"]["leaseDurationSeconds"] == 1
    lock.lose()
    assert renewed(lock, "one") == 409, "it is the one that led"
    assert renewed(lock, "") == 409


async def test_a_new_process_of_the_same_name_leads_after_a_duration(
    lock: Lock, clock: FakeClock
) -> None:
    assert renewed(lock, "one") == 200
    lock.lose()
    for _ in range(4):
        assert renewed(lock, "one") == 409
        await clock.advance(USUAL_SECONDS / 4)
    await clock.advance(1)
    assert renewed(lock, "one") == 200, "or it is one that did not know that it led"


async def test_a_leader_is_late_by_its_own_duration(lock: Lock, clock: FakeClock) -> None:
    renewed(lock, "one", leaseDurationSeconds=137)
    await clock.advance(100)
    assert not lock.is_late(10)
    await clock.advance(38)
    assert lock.is_late(10)


async def test_the_duration_is_read_from_protobuf_too(lock: Lock, clock: FakeClock) -> None:
    lease = b"\x0a\x06\x0a\x04lock" + b"\x12\x08\x0a\x03one\x10\x89\x01"
    body = b"k8s\x00" + b"\x12" + bytes([len(lease)]) + lease
    answer = lock.answer(Target(Verb.WRITE, LEASES, REF), body, PROTOBUF)
    assert answer is not None
    assert answer[0] == 200
    await clock.advance(136)
    assert not lock.is_late(10)
    await clock.advance(2)
    assert lock.is_late(10)


async def test_who_leads_again_is_banned_no_more(lock: Lock, clock: FakeClock) -> None:
    renewed(lock, "one")
    lock.lose()
    renewed(lock, "one")
    await clock.advance(USUAL_SECONDS)
    renewed(lock, "one")
    await clock.advance(1)
    assert renewed(lock, "one") == 200

    await clock.advance(2 * USUAL_SECONDS)  # its machine stood still
    assert renewed(lock, "one") == 200
