"""Facts about `tests.long.nemesis`: each verdict is given where it is due, and nowhere else."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from random import Random

from tests.long.nemesis.judging import Verdict, judge
from tests.long.nemesis.schedule import LASTS, Kind, schedule
from tests.long.nemesis.traces import Child, Held, Request, Span, Trace, Work, Write

EMPTY = Trace(writes=(), children=(), leases=(), downs={}, outages=(), refused=(), works=())
HELD = (
    Held(revision=1, at=0, shard="a", is_held=True),
    Held(revision=2, at=0, shard="b", is_held=True),
)


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


def child(revision: int, writer: str, *, uid: str = "c", deleted: bool = False) -> Child:
    return Child(
        revision=revision, uid=uid, name="one-child", parent="u", writer=writer, deleted=deleted
    )


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


def test_a_drain_alone_is_no_acknowledgement() -> None:
    verdict = judged(wrote(10, "a"), wrote(11, "a", draining=True), wrote(12, "b"))

    assert len(verdict.unacknowledged) == 1


def test_a_label_that_vanishes_without_a_drain_is_no_acknowledgement() -> None:
    verdict = judged(wrote(10, "a"), wrote(11), wrote(12, "b"))

    assert len(verdict.unacknowledged) == 1


def test_an_object_of_a_shard_whose_lease_was_taken_may_go() -> None:
    taken = Held(revision=11, at=11, shard="a", is_held=False)

    verdict = judged(wrote(10, "a"), wrote(12, "b"), leases=(*HELD, taken))

    assert verdict.unacknowledged == []


def test_an_object_whose_label_a_user_removed_stays_where_it_is_for_3_s() -> None:
    removed = wrote(11, stamp="1")

    early = judged(wrote(10, "a"), removed, wrote(12, "b", stamp="1"))
    late = judged(wrote(10, "a"), removed, wrote(14, "b", stamp="1"))
    returned = judged(wrote(10, "a"), removed, wrote(12, "a", stamp="1"))

    assert early.stripped == ["one: a -> b 1.00 s later"]
    assert early.unacknowledged == late.stripped == returned.stripped == []
    assert (early.strips, late.strips, returned.strips) == (1, 1, 0)


def test_a_user_cannot_acknowledge_for_a_shard() -> None:
    asked = wrote(11, "a", draining=True)

    verdict = judged(wrote(10, "a"), asked, wrote(12, stamp="1"), wrote(13, "b", stamp="1"))

    assert len(verdict.stripped) == 1


def test_a_child_is_written_by_the_shard_of_its_object_alone() -> None:
    right = judged(*ASKED, children=[child(10, "a"), child(14, "b")])
    early = judged(*ASKED, children=[child(12, "b")])
    late = judged(*ASKED, children=[child(10, "a"), child(13, "c")])

    assert right.foreign == []
    assert early.foreign == ["one-child: by b, but on none"]
    assert late.foreign == ["one-child: by c, but on b"]


def test_a_child_that_only_moves_was_not_written() -> None:
    verdict = judged(*ASKED, children=[child(10, "a"), child(13, "a")])

    assert verdict.foreign == []


def test_a_child_that_is_born_twice_is_a_twin_while_its_object_lives() -> None:
    one, other = child(11, "a"), child(12, "a", uid="d")
    gone = wrote(11, "a", deleted=True)

    assert judged(wrote(10, "a"), children=[one, other]).born_twice == ["one: 2"]
    assert judged(wrote(10, "a"), gone, children=[one, other]).born_twice == []


def test_an_object_that_ends_draining_or_without_a_live_owner_is_left_behind() -> None:
    assert judged(wrote(10, "a")).left == []
    assert judged(wrote(10, "a", draining=True)).left == ["one: a draining"]
    assert judged(wrote(10)).left == ["one: none"]
    assert judged(wrote(10, "z")).left == ["one: z"]
    assert judged(wrote(10), wrote(11, deleted=True)).left == []


def test_a_refused_request_counts_outside_outages_only() -> None:
    refused = [Request(begin=100, end=101, what="PUT")]

    assert judged(refused=refused).refused == ["PUT"]
    assert judged(refused=refused, outages=[Span(begin=90, end=97)]).refused == []
    assert judged(refused=refused, outages=[Span(begin=10, end=20)]).refused == ["PUT"]


def test_the_time_without_owner_is_counted_apart_from_outages() -> None:
    writes = (wrote(10, "a"), wrote(100), wrote(130, "b"))

    away = judged(*writes, outages=[Span(begin=90, end=95)])

    assert judged(*writes).calm.p99 == 30
    assert (away.calm.count, away.all.longest) == (0, 30)


def test_the_time_on_a_shard_that_is_away_is_time_without_a_shard() -> None:
    writes = (wrote(10, "a"), wrote(40, "b"))

    assert judged(*writes, downs={"a": [Span(begin=20, end=90)]}).calm.longest == 20
    assert judged(*writes, downs={"a": [Span(begin=20, end=25)]}).calm.longest == 5
    assert judged(*writes, downs={"b": [Span(begin=20, end=inf)]}).calm.count == 0


def test_two_at_work_on_one_object_are_found_unless_the_first_stood_still() -> None:
    works = [
        Work(object="one", shard="a", began=10, ended=20),
        Work(object="one", shard="a", began=12, ended=13),
        Work(object="two", shard="b", began=12, ended=13),
        Work(object="one", shard="b", began=15, ended=16),
    ]

    assert judged(works=works).overlaps == ["one: b began 5.00 s before a ended"]
    assert judged(works=works, downs={"a": [Span(begin=14, end=18)]}).overlaps == []
    assert len(judged(works=works, downs={"a": [Span(begin=4, end=8)]}).overlaps) == 1


def test_a_seed_gives_one_schedule_in_which_no_process_is_hit_while_it_is_away() -> None:
    names = {"shards": ["p0", "p1"], "sharders": ["s0", "s1"]}

    faults = schedule(Random(7), 600, **names)

    assert faults == schedule(Random(7), 600, **names)
    assert faults != schedule(Random(8), 600, **names)
    assert {fault.kind for fault in faults} == set(Kind)
    last: dict[str, float] = {}
    for fault in faults:
        if fault.kind in LASTS and fault.target:
            assert last.get(fault.target, 0) <= fault.at
            last[fault.target] = fault.at + fault.seconds
