"""Facts about `sharder.core.leases.election`."""

from datetime import UTC, datetime

import pytest

from sharder.core.api.lease import Lease, LeaseSpec
from sharder.core.api.meta import ObjectMeta
from sharder.core.leases.election import LeaseTiming, Verdict, evacuation, judge, taken
from sharder.core.leases.state import ObservedLease
from sharder.core.names import EVACUATE_ANNOTATION, EVACUATE_ON_STOP, POD_UID_ANNOTATION

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
EARLIER, LATER = "2026-03-01T11:59:50.000000Z", "2026-03-01T12:00:00.000000Z"


def lease(
    holder: str | None, *, duration: int | None = 15, renewed: str = EARLIER, pod: str = "pod"
) -> Lease:
    spec = LeaseSpec(
        holder_identity=holder,
        lease_duration_seconds=duration,
        renew_time=renewed,
        lease_transitions=4,
    )
    meta = ObjectMeta(name="x", annotations={POD_UID_ANNOTATION: pod} if pod else None)
    return Lease(metadata=meta, spec=spec)


def verdict(
    seen: Lease | None,
    *,
    age: float = 0,
    written: str = LATER,
    is_first: bool = False,
    pod: str = "pod",
) -> Verdict:
    return judge(
        None if seen is None else ObservedLease(seen, since=100, renewed=not is_first),
        identity="me",
        written={written},
        now=100 + age,
        timing=LeaseTiming(),
        pod_uid=pod,
    )


@pytest.mark.parametrize("seen", [None, lease(None), lease("")])
def test_a_lease_without_holder_is_free(seen: Lease | None) -> None:
    assert verdict(seen) is Verdict.FREE


def test_a_lease_that_is_unchanged_since_our_write_is_ours() -> None:
    assert verdict(lease("me"), age=1000, written=EARLIER) is Verdict.OURS


@pytest.mark.parametrize(("duration", "limit"), [(15, 15), (30, 30), (None, 15)])
def test_anothers_lease_is_held_until_it_was_silent_for_its_duration(
    duration: int | None, limit: float
) -> None:
    seen = lease("other", duration=duration)

    assert verdict(seen, age=limit - 0.1) is Verdict.HELD
    assert verdict(seen, age=limit) is Verdict.FREE


def test_our_name_that_stood_still_is_a_dead_predecessors_and_else_a_living_twins() -> None:
    assert verdict(lease("me"), age=14.9) is Verdict.HELD
    assert verdict(lease("me"), is_first=True, age=1.9) is Verdict.HELD
    assert verdict(lease("me"), is_first=True, age=2) is Verdict.FREE


@pytest.mark.parametrize(("held_in", "ours"), [("another", "pod"), ("", "pod"), ("", "")])
def test_our_name_in_another_pod_may_be_cut_off_and_working(held_in: str, ours: str) -> None:
    seen = lease("me", pod=held_in)

    assert verdict(seen, is_first=True, age=14.9, pod=ours) is Verdict.HELD
    assert verdict(seen, is_first=True, age=15, pod=ours) is Verdict.FREE


@pytest.mark.parametrize(("old", "transitions"), [(None, 0), (lease(""), 5), (Lease(), 1)])
def test_taking_counts_as_a_transition(old: Lease | None, transitions: int) -> None:
    spec = taken(old, identity="me", now=NOW, seconds=20)

    assert spec == LeaseSpec(
        holder_identity="me",
        lease_duration_seconds=20,
        acquire_time=LATER,
        renew_time=LATER,
        lease_transitions=transitions,
    )


@pytest.mark.parametrize(
    "times", [(10, 10.0, 2.0), (15, 2.0, 2.0), (15, 10.0, 0.0)], ids=["duration", "retry", "zero"]
)
def test_times_that_endanger_the_lease_are_refused(times: tuple[int, float, float]) -> None:
    duration, deadline, period = times

    with pytest.raises(ValueError, match="duration > renew deadline > retry period > 0"):
        LeaseTiming(lease_duration=duration, renew_deadline=deadline, retry_period=period)


@pytest.mark.parametrize(
    ("found", "wanted", "change"),
    [
        (None, True, {EVACUATE_ANNOTATION: EVACUATE_ON_STOP}),
        ("false", True, {EVACUATE_ANNOTATION: EVACUATE_ON_STOP}),
        (EVACUATE_ON_STOP, True, {}),
        ("true", True, {}),
        (None, False, {}),
        ("false", False, {}),
        ("true", False, {}),
        (EVACUATE_ON_STOP, False, {EVACUATE_ANNOTATION: None}),
    ],
)
def test_only_what_the_shard_itself_has_asked_is_taken_back(
    found: str | None, wanted: bool, change: dict[str, str | None]
) -> None:
    annotations = None if found is None else {EVACUATE_ANNOTATION: found}
    ours = Lease(metadata=ObjectMeta(name="x", annotations=annotations))

    assert evacuation(ours, wanted=wanted) == change
    assert evacuation(None, wanted=wanted) == evacuation(Lease(), wanted=wanted)
