"""Facts about `tests.long.hostile`: what is wrong in a run is found, and what is right is not."""

from dataclasses import replace
from math import inf

from tests.long.hostile.judging import Create, Record, Row, Span, Write, judge

RECORD = Record(
    phases=[Span(name="quiet", begin=0, end=100), Span(name="attack", begin=100, end=200)],
    creates=[],
    writes=[],
    deaths=[],
    leaders=[],
    megabytes=[],
    lease_seconds=5,
    processes=2,
    capacity=3,
    ordinary=frozenset({"users", "busy"}),
    steered="steered",
)


def created(at: float, *, owner: str = "bounded-p0", status: int = 201, seconds: float = 0.1,
            name: str = "one", ring: str = "bounded") -> Create:  # fmt: skip
    return Create(ring=ring, name=name, at=at, seconds=seconds, status=status, owner=owner)


def wrote(at: float, name: str, owner: str, *, ring: str = "bounded", draining: bool = False,
          namespace: str = "users") -> Write:  # fmt: skip
    return Write(
        ring=ring, namespace=namespace, name=name, owner=owner, draining=draining,
        deleted=False, at=at,
    )  # fmt: skip


def attack(**fields: object) -> Row:
    """Return the row of the attack."""
    return judge(replace(RECORD, **fields))[1]  # type: ignore[arg-type]  # fields of the record


QUIET = [created(number) for number in range(100)]


def test_a_run_without_faults_has_no_problems() -> None:
    assert (
        attack(creates=[*QUIET, *(created(100 + number) for number in range(100))]).problems == []
    )


def test_creates_without_owner_are_reported_beyond_one_in_a_hundred_and_after_5_s() -> None:
    many = [*QUIET, *(created(100 + number) for number in range(100))]
    soon, late = wrote(154, "odd", "bounded-p0"), wrote(156, "odd", "bounded-p0")
    odd = created(150, owner="", name="odd")

    assert attack(creates=[*many, odd], writes=[soon]).problems == []
    assert attack(creates=[*many, odd], writes=[late]).problems == ["owned after 5.9 s"]
    assert attack(creates=[*many, odd]).owned_after == inf
    assert "2 created without owner" in attack(creates=[*many, odd, odd], writes=[soon]).problems


def test_creates_are_slow_beside_the_quiet_phase_and_beside_those_that_no_webhook_sees() -> None:
    slow = [created(150, seconds=0.4)]
    floor = created(150, seconds=0.2, ring="", owner="")

    assert attack(creates=[*QUIET, *slow]).problems == ["p99 of creates 4.0 times the quiet one"]
    assert attack(creates=[*QUIET, *slow, floor]).problems == []


def test_a_leader_that_is_lost_and_memory_are_reported() -> None:
    row = attack(leaders=[50, 150], megabytes=[(150, "sharder-0", 201), (151, "sharder-0", 90)])

    assert row.problems == ["1 leaders lost", "201 MB"]


def test_an_object_drained_from_a_shard_with_no_more_than_its_share_is_reported() -> None:
    born = [wrote(1, "a", "bounded-p0"), wrote(2, "b", "bounded-p1")]

    drained = attack(writes=[*born, wrote(150, "a", "bounded-p0", draining=True)])
    given = attack(writes=[*born, wrote(150, "a", "bounded-p1")])

    assert drained.moved == ("bounded a: bounded-p0 (1 of 1) -> drain",)
    assert len(given.moved) == 1


def steered(*writes: Write) -> tuple[str, ...]:
    """Return what was moved without cause while pins and loads were flipped from 100 s on."""
    phases = [RECORD.phases[0], replace(RECORD.phases[1], name="steered")]
    return judge(replace(RECORD, phases=phases, writes=writes))[1].moved


def test_what_the_tenant_has_pinned_to_a_shard_is_no_cause_to_move_objects_of_others() -> None:
    born = [wrote(1, "a", "bounded-p0"), wrote(1, "b", "bounded-p1")]
    pinned = [wrote(110, f"t{n}", "bounded-p0", namespace="tenant") for n in range(6)]
    soon, late = (wrote(at, "a", "bounded-p0", draining=True) for at in (113, 120))

    assert len(steered(*born, *pinned, late)) == 1
    assert steered(*born, *pinned, soon) == ()  # they have just come: that may displace others


def test_loads_of_the_tenant_move_nothing_of_others_at_rest_or_busy() -> None:
    born = [wrote(1, place, "balanced-p0", ring="balanced", namespace=place)
            for place in ("users", "busy")]  # fmt: skip
    gone = [replace(write, at=150, owner="balanced-p1") for write in born]

    assert steered(*born, *gone) == (
        "balanced users: balanced-p0 (1 of inf) -> balanced-p1",
        "balanced busy: balanced-p0 (0 of inf) -> balanced-p1",
    )


def test_objects_of_a_ring_with_a_capacity_stay_below_it() -> None:
    born = [wrote(1, name, "capped-p0", ring="capped") for name in "abc"]

    row = attack(writes=[*born, wrote(150, "a", "capped-p0", ring="capped", draining=True)])

    assert len(row.moved) == 1
