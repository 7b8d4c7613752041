"""Facts about `tests.long.nemesis`: each verdict is given where it is due, and nowhere else."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import msgspec

from sharder.core.names import SHARDER_IDENTITY
from tests.history.judging import Verdict, judge
from tests.history.traces import (
    Child,
    Event,
    Happening,
    Held,
    Sent,
    Span,
    Trace,
    Work,
    Write,
)
from tests.long.etcd_history import Stored
from tests.long.nemesis.recording import held_of

EMPTY = Trace(writes=(), children=(), leases=(), events=(), outages=(), leading=())
SECONDS = 5.0
"""The duration of Leases."""


def held(shard: str, at: float, *, by: str | None = None, renewed: float | None = None) -> Held:
    """Return a write to a Lease that leaves it with a holder, by default renewed by the shard."""
    return Held(
        revision=round(at), at=at, shard=shard, holder=shard if by is None else by,
        renewed=at if renewed is None else renewed, seconds=SECONDS,
    )  # fmt: skip


HELD = (held("a", 1), held("b", 1))


def events(shard: str, **times: float) -> list[Event]:
    """Return what happened to a shard at which time."""
    return [Event(at=at, process=shard, kind=Happening(kind)) for kind, at in times.items()]


def wrote(
    revision: int,
    owner: str = "",
    *,
    draining: bool = False,
    stamp: str = "",
    deleted: bool = False,
) -> Write:
    return Write(
        revision=revision, at=revision, uid="u", name="one", owner=owner, draining=draining,
        stamp=stamp, deleted=deleted,
    )  # fmt: skip


def child(revision: int, owner: str, *, uid: str = "c", deleted: bool = False) -> Child:
    return Child(
        revision=revision, at=revision, uid=uid, name="one-child", parent="u", owner=owner,
        deleted=deleted,
    )  # fmt: skip


def sent(revision: int, shard: str) -> Sent:
    """Return what the audit log has of a write to the child."""
    return Sent(revision=revision, shard=shard, uid="c", name="one-child", parent="u")


def judged(
    *writes: Write,
    leases: Sequence[Held] = HELD,
    children: Sequence[Child] = (),
    **more: object,
) -> Verdict:
    trace = replace(EMPTY, writes=writes, leases=leases, children=children)
    return judge(replace(trace, **more))  # type: ignore[arg-type]  # fields of the trace


ASKED = (wrote(10, "a"), wrote(11, "a", draining=True), wrote(12), wrote(13, "b"))


def test_an_acknowledged_move_has_no_problems() -> None:
    verdict = judged(*ASKED)

    assert verdict.problems(5) == []
    assert verdict.moves == 1


def test_a_move_from_a_shard_that_holds_its_lease_needs_an_acknowledgement() -> None:
    verdict = judged(wrote(10, "a"), wrote(11, "b"))

    assert verdict.unacknowledged == ["one: a -> b 1.00 s later"]


def test_an_object_of_a_shard_whose_lease_was_taken_may_go() -> None:
    taken = held("a", 11, by="sharder")

    verdict = judged(wrote(10, "a"), wrote(12, "b"), leases=(*HELD, taken))

    assert verdict.unacknowledged == []


def test_an_object_that_was_sent_while_its_shard_was_away_may_go_on_when_it_is_back() -> None:
    away, back = held("a", 11, by="sharder"), held("a", 13)

    sent = judged(wrote(10, "a"), wrote(12), wrote(14, "b"), leases=(*HELD, away, back))
    robbed = judged(wrote(10, "a"), wrote(12), wrote(14, "b"))

    assert sent.unacknowledged == []
    assert robbed.unacknowledged == ["one: a -> b 4.00 s later"]


def test_an_object_whose_label_a_user_removed_stays_where_it_is_for_3_s() -> None:
    removed = wrote(11, stamp="1")

    early = judged(wrote(7, "a"), removed, wrote(12, "b", stamp="1"))
    new = judged(wrote(10, "a"), removed, wrote(12, "b", stamp="1"))
    late = judged(wrote(7, "a"), removed, wrote(14, "b", stamp="1"))
    returned = judged(wrote(7, "a"), removed, wrote(12, "a", stamp="1"))

    assert early.stripped == ["one: a -> b 1.00 s later"]
    assert early.unacknowledged == late.stripped == returned.stripped == new.stripped == []
    assert (early.strips, late.strips, returned.strips) == (1, 1, 0)


def test_a_user_cannot_acknowledge_for_a_shard() -> None:
    asked = wrote(11, "a", draining=True)

    verdict = judged(wrote(7, "a"), asked, wrote(12, stamp="1"), wrote(13, "b", stamp="1"))

    assert len(verdict.stripped) == 1


def test_a_shard_works_on_until_it_sees_that_a_user_removed_the_label_or_the_object() -> None:
    removed = wrote(11, stamp="1")
    deleted = wrote(12, stamp="1", deleted=True)

    own = judged(wrote(10, "a"), removed, deleted, sent=[sent(13, "a")])
    other = judged(wrote(10, "a"), removed, deleted, sent=[sent(13, "b")])

    assert own.foreign == []
    assert other.foreign == ["one-child: by b, but on a"]


def test_a_shard_that_cannot_see_that_a_user_removed_the_label_works_until_it_does() -> None:
    moved = (wrote(10, "a"), wrote(11, stamp="1"), wrote(14, "b", stamp="1"))
    works = [at_work("a", 15, 17), at_work("b", 15, 17)]

    def found(*, stalled: float, connected: float) -> tuple[int, int]:
        verdict = judged(
            *moved,
            children=[child(16, "a")],
            sent=[sent(16, "a")],
            works=works,
            events=events("a", stalled=stalled, connected=connected),
        )
        return len(verdict.foreign), len(verdict.overlaps)

    assert found(stalled=9, connected=16.5) == (0, 0)
    assert found(stalled=2, connected=10) == (1, 1)


def test_a_shard_writes_children_of_its_own_objects_alone() -> None:
    right = judged(*ASKED, sent=[sent(11, "a"), sent(14, "b")])
    early = judged(*ASKED, sent=[sent(13, "b")])
    late = judged(*ASKED, sent=[sent(14, "a")])

    assert right.foreign == []
    assert early.foreign == ["one-child: by b, but on none"]
    assert late.foreign == ["one-child: by a, but on b"]


def test_an_object_itself_is_written_by_its_shard_alone() -> None:
    acknowledged = replace(sent(12, "a"), uid="u", name="one", parent="")

    assert judged(*ASKED, sent=[acknowledged]).foreign == []
    assert judged(*ASKED, sent=[replace(acknowledged, shard="b")]).foreign == [
        "one: by b, but on a"
    ]


def test_refusals_of_the_fence_are_counted_and_no_problem() -> None:
    verdict = judged(fenced=["a: not yours"])

    assert (verdict.fenced, verdict.problems(5)) == (1, [])


def taken(shard: str, at: float) -> Held:
    return held(shard, at, by=SHARDER_IDENTITY)


def test_a_lease_is_taken_after_two_durations_of_a_shard_that_is_away() -> None:
    ended = events("a", ended=5)

    assert judged(leases=[held("a", 4), taken("a", 14)], events=ended).robbed == []
    assert judged(leases=[held("a", 4), taken("a", 12)], events=ended).robbed == [
        "a: 8.0 s after its last renewal"
    ]


def test_a_lease_is_not_taken_from_a_shard_that_was_never_away() -> None:
    leases = [held("a", 4), taken("a", 15)]
    before, after = events("a", ended=1), events("a", ended=20)

    assert len(judged(leases=leases).robbed) == 1
    assert len(judged(leases=leases, events=after).robbed) == 1
    assert len(judged(leases=[*leases[:1], held("a", 5), taken("a", 16)], events=before).robbed)


def test_what_others_do_to_a_lease_is_no_robbery() -> None:
    forged = held("a", 5, by="intruder")

    assert judged(leases=[held("a", 4), held("a", 5, by="")]).robbed == []
    assert judged(leases=[held("a", 4), forged, taken("a", 6)]).robbed == []


def test_an_outage_is_no_silence_of_a_shard() -> None:
    leases, ended = [held("a", 4), taken("a", 16)], events("a", ended=5)

    assert judged(leases=leases, events=ended, outages=[Span(begin=90, end=99)]).robbed == []
    assert judged(leases=leases, events=ended, outages=[Span(begin=6, end=13)]).robbed == [
        "a: 12.0 s after its last renewal, 7.0 s of them in outages"
    ]


def test_a_child_that_is_born_twice_is_a_twin_while_its_object_lives() -> None:
    one, other = child(11, "a"), child(12, "a", uid="d")
    gone = wrote(11, "a", deleted=True)

    (twins,) = judged(wrote(10, "a"), children=[one, other, child(13, "b")]).born_twice
    assert str(twins) == "one: 2"
    assert judged(wrote(10, "a"), gone, children=[one, other]).born_twice == []


def test_an_object_that_ends_draining_or_without_a_live_owner_is_left_behind() -> None:
    assert judged(wrote(10, "a")).left == []
    assert judged(wrote(10, "a", draining=True)).left == ["one: a draining"]
    assert judged(wrote(10)).left == ["one: none"]
    assert judged(wrote(10, "z")).left == ["one: z"]
    assert judged(wrote(10), wrote(11, deleted=True)).left == []


def test_an_object_that_ends_on_a_shard_that_never_came_back_is_left_behind() -> None:
    ghost = (wrote(10, "a"),)

    assert judged(*ghost, events=events("a", forged=0)).left == []
    assert judged(*ghost, events=events("a", forged=2)).left == ["one: a"]


def test_a_child_that_ends_on_another_shard_than_its_object_is_left_behind() -> None:
    here, there = child(11, "a"), child(11, "b")
    gone = wrote(12, "a", deleted=True)

    assert judged(wrote(10, "a"), children=[there, child(12, "a")]).left == []
    assert judged(wrote(10, "a"), children=[here, child(12, "b")]).left == [
        "one-child: b, but one is on a"
    ]
    assert judged(wrote(10, "a"), children=[child(11, "")]).left == [
        "one-child: none, but one is on a"
    ]
    assert judged(wrote(10, "a"), children=[replace(there, deleted=True)]).left == []
    assert judged(wrote(10, "a"), gone, children=[there]).left == []


def at_work(shard: str, began: float, ended: float, *, on: str = "one") -> Work:
    return Work(object=f"ring secrets demo/{on}", shard=shard, began=began, ended=ended)


BOTH = (at_work("a", 10, 20), at_work("b", 15, 30))
LOST = (*HELD, held("a", 14, by="sharder"))
"""The Leases when that of `a` was taken before `b` began."""


def overlapping(*works: Work, **more: object) -> list[str]:
    return [str(overlap) for overlap in judged(works=works, **more).overlaps]  # type: ignore[arg-type]


def test_two_running_shards_at_work_on_one_object_overlap() -> None:
    told = ["ring secrets demo/one: a and b at work for 5.00 s"]

    assert overlapping(*BOTH) == told
    assert overlapping(*BOTH, leases=LOST) == told
    assert overlapping(*BOTH, at_work("a", 12, 13)) == told
    assert overlapping(at_work("a", 10, 15), at_work("b", 15, 20)) == []
    assert overlapping(at_work("a", 10, 20), at_work("a", 15, 30)) == []
    assert overlapping(at_work("a", 10, 20), at_work("b", 15, 30, on="two")) == []
    assert len(overlapping(at_work("a", 10, inf), at_work("b", 15, inf))) == 1


def test_a_shard_that_stands_still_is_not_at_work() -> None:
    paused = events("a", paused=12, resumed=19.5)

    assert overlapping(*BOTH, leases=LOST, events=paused) == []
    assert overlapping(*BOTH, leases=LOST, events=events("a", paused=12)) == []
    assert overlapping(*BOTH, leases=LOST, events=events("b", paused=15, resumed=20)) == []
    assert len(overlapping(*BOTH, leases=LOST, events=events("a", paused=4, resumed=8))) == 1


def test_the_part_of_an_overlap_outside_pauses_counts() -> None:
    still = events("a", paused=16, resumed=18)

    assert overlapping(*BOTH, events=still) == [
        "ring secrets demo/one: a and b at work for 3.00 s"
    ]


def test_a_shard_that_wakes_without_its_lease_has_a_second_to_see_that() -> None:
    early, late = (events("a", paused=12, resumed=at) for at in (19.5, 17.0))
    begun_awake = (at_work("b", 15, 30), at_work("a", 19.6, 20))

    assert overlapping(*BOTH, leases=LOST, events=early) == []
    assert len(overlapping(*BOTH, leases=HELD, events=early)) == 1
    assert len(overlapping(*BOTH, leases=LOST, events=late)) == 1
    assert len(overlapping(*begun_awake, leases=LOST, events=early)) == 1


def test_a_lease_that_a_user_deleted_was_not_given_up_by_its_shard() -> None:
    value = msgspec.json.encode({"metadata": {"name": "a"}, "spec": {"holderIdentity": "a"}})
    there = Stored(revision=1, key="leases/default/a", value=value, deleted=False, seen=1.0)
    deleted = held_of(replace(there, deleted=True), offset=0.0)

    assert held_of(there, offset=0.0).is_held
    assert not deleted.is_held
    assert not deleted.is_released
