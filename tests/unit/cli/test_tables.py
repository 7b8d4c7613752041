"""Facts about `sharder.cli.tables`: what people see, and what names cannot do to a terminal."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest
from msgspec import structs

from sharder.cli import plan_tables, tables
from sharder.cli.reports import (
    ApartView,
    CertificateRole,
    CertificateRow,
    CertificatesReport,
    CleanupFailure,
    CleanupReport,
    CleanupRow,
    Explanation,
    FieldChange,
    Operation,
    OperationReport,
    PlacementView,
    RingRow,
    RingsReport,
    ShardRow,
    ShardsReport,
    ShardView,
)
from sharder.core.api.ring import RebalanceStrategy, StrategyName
from sharder.core.api.since import Bound
from sharder.core.leases.shard import Shard
from sharder.core.movement.step import Action
from sharder.core.names import RingName, ShardName
from sharder.core.preview.balance import BalanceMove, BalanceReport, ShardMeasure
from sharder.core.preview.report import PlanReport, ShardLoad, Summary
from sharder.core.status.phases import ShardPhase
from tests.support.values import NOW

RING = RingName("demo")
A, B, C = ShardName("shard-a"), ShardName("shard-b"), ShardName("shard-c")


def shard(
    name: ShardName,
    *,
    ago: float | None = 3.2,
    problem: str | None = None,
    says: Shard | None = None,
    capacity: Mapping[str, str] = MappingProxyType({}),
    mistakes: tuple[str, ...] = (),
) -> ShardRow:
    of = says or Shard(name=name)
    return ShardRow(
        name=name,
        namespace="default",
        state=ShardPhase.READY,
        available=problem is None,
        cordoned=of.cordoned,
        evacuating=of.evacuating,
        region=of.region,
        zone=of.zone,
        pool=of.pool,
        weight=of.weight,
        capacity=dict(capacity),
        objects=2,
        children=0,
        draining=1,
        renew_time=None,
        renewed_seconds_ago=ago,
        problem=problem,
        mistakes=mistakes,
    )


NO_SHARDS = ShardsReport(
    ring=RING,
    shards=(),
    objects=0,
    children=0,
    unassigned=0,
    unowned=0,
    unowned_children=0,
    draining=0,
)


def printed(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def explained(
    to: ShardName = A,
    placement: PlacementView | None = None,
    mistakes: tuple[str, ...] = (),
    *,
    rebalance: str | None = None,
    movement: str | None = None,
    rollout: str | None = None,
    evacuation: str | None = None,
    apart: tuple[ApartView, ...] = (),
) -> Explanation:
    return Explanation(
        ring=RING,
        strategy=StrategyName.BOUNDED_LOAD,
        resource="secrets",
        object="/Secret/default/s",
        key="/Secret/default/s",
        controller=None,
        owner=A,
        owner_state=None,
        draining=True,
        since="2026-03-01T11:59:15Z",
        bound=Bound.AT_LEAST,
        wanted=B,
        action=Action.DRAIN,
        to=to,
        why="because",
        advice="wait",
        rebalance=rebalance,
        movement=movement,
        rollout=rollout,
        evacuation=evacuation,
        placement=placement,
        apart=apart,
        mistakes=mistakes,
    )


@pytest.mark.parametrize(("to", "step"), [(B, "drain to shard-b"), (A, "drain")])
def test_an_object_is_explained(
    to: ShardName, step: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_tables.explanation(explained(to), NOW)

    lines = [" ".join(line) for line in printed(capsys)]
    assert "Owner shard-a (has no Lease)" in lines
    assert "Object secret default/s" in lines
    assert f"Next {step}" in lines
    assert "Since 2026-03-01T11:59:15Z: draining for at least 45s" in lines
    assert "Do wait" in lines
    hidden = ("Controlled by", "Rebalance", "Movement", "Rollout", "Evacuation", "Apart")
    assert not [line for line in lines if line.startswith(hidden)]


def test_what_keeps_an_object_where_it_is_has_a_line_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    children = (ApartView(object="/ConfigMap/default/a", owner=None),)
    told = explained(
        rebalance="stays", movement="paused", rollout="two", evacuation="it goes", apart=children
    )

    plan_tables.explanation(told, NOW)

    lines = [" ".join(line) for line in printed(capsys)]
    assert {"Rebalance stays", "Movement paused", "Rollout two", "Evacuation it goes"} <= {*lines}
    assert "Apart 1 object that it controls, such as configmap default/a on no shard" in lines


def test_an_object_is_explained_with_a_word_about_every_shard(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shards = (
        ShardView(name=A, state=None, rejected="it is away", remark=None),
        ShardView(name=B, state=ShardPhase.READY, rejected=None, remark="score 7"),
        ShardView(name=C, state=ShardPhase.READY, rejected=None, remark="score 5"),
    )
    placement = PlacementView(
        pin=None,
        region=None,
        zone="z",
        pool=None,
        group=("label app=web", "selector 0"),
        chosen=B,
        reason=None,
        shards=shards,
    )

    plan_tables.explanation(explained(placement=placement, mistakes=("a label is ignored",)), NOW)

    lines = [" ".join(line) for line in printed(capsys)]
    assert "Zone z" in lines
    assert "Group label app=web, selector 0" in lines
    assert not [line for line in lines if line.startswith(("Pool", "Pinned"))]
    assert lines[-6:] == [
        "a label is ignored",
        "",
        "SHARD STATE ELIGIBLE REASON",
        "shard-a - no it is away",
        "shard-b ready yes, the best score 7",
        "shard-c ready yes score 5",
    ]


SUMMARY = Summary(
    objects=0,
    children=0,
    moves=0,
    moved_children=0,
    exact=True,
    imbalance_before=None,
    imbalance_after=None,
)


def planned(rebalance: BalanceReport | None = None, *, paused: bool = False) -> PlanReport:
    return PlanReport(
        ring=RING,
        paused=paused,
        strategy="BoundedLoad",
        shards=(),
        assignments=(),
        unassigned=(),
        unowned=(),
        reasons={},
        refusals=(),
        rebalance=rebalance,
        summary=SUMMARY,
    )


def test_a_plan_is_printed_with_load_and_what_keeps_objects_from_shards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    loads = (
        ShardLoad(
            name=A,
            state=ShardPhase.READY,
            objects=4,
            children=8,
            load={"objects": 3},
            capacity={"objects": 3},
        ),
        ShardLoad(name=B, state=ShardPhase.LOST, objects=0, children=0, load={"objects": 0}),
    )
    unowned = ("/Secret/d/x", "/Secret/d/y")

    plan_tables.plan(
        PlanReport(
            ring=RING,
            strategy="BoundedLoad",
            shards=loads,
            assignments=(),
            unassigned=unowned[:1],
            unowned=unowned,
            reasons=dict.fromkeys(unowned, "no shard can take the object"),
            refusals=("spec: no",),
            rebalance=None,
            summary=structs.replace(SUMMARY, objects=6, imbalance_before=1.0),
        )
    )

    lines = [" ".join(line) for line in printed(capsys)]
    assert lines[1:] == [
        "shard-a ready 0 4 +8 3",
        "shard-b lost 0 0 -",
        "",
        "2 unowned: no shard can take the object",
        "the API server would reject the ring: spec: no",
        "BoundedLoad: 6 objects, 0 moves, 1 unassigned, 2 unowned; imbalance 1.00, then -",
    ]


def balance(
    *, shards: int = 0, refused: tuple[str | None, ...] = (), dry_run: bool = False
) -> BalanceReport:
    names = [ShardName(f"s{number}") for number in range(shards)]
    return BalanceReport(
        strategy=RebalanceStrategy.RESOURCE_BALANCE,
        dry_run=dry_run,
        measure="fragmentation" if shards else None,
        threshold=0.15 if shards else None,
        shards=tuple(
            ShardMeasure(name=name, before=number / 10 + 0.00004, after=0.0)
            for number, name in enumerate(names)
        ),
        moves=tuple(
            BalanceMove(
                object="/Secret/d/x", source=A, target=B, before=0.2, after=0.1, refused=it
            )
            for it in refused
        ),
        why="so it is",
    )


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (balance(), "balance by ResourceBalance: so it is"),
        (
            balance(shards=2),
            "balance by ResourceBalance: so it is\nfragmentation: s1 0.1, then 0; s0 0, then 0",
        ),
        (
            balance(refused=(None, "full"), dry_run=True),
            "balance by ResourceBalance, a dry run: so it is\n1 move is skipped: "
            "earlier moves leave no room",
        ),
        (
            balance(refused=("full", "full")),
            "balance by ResourceBalance: so it is\n2 moves are skipped: "
            "earlier moves leave no room",
        ),
    ],
)
def test_a_plan_says_what_moves_for_balance_and_why(
    report: BalanceReport, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_tables.plan(planned(rebalance=report))

    lines = [" ".join(each) for each in printed(capsys)]
    assert "\n".join(lines[2:-1]) == line


def test_the_worst_of_many_shards_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    plan_tables.plan(planned(rebalance=balance(shards=12)))

    line = " ".join(" ".join(each) for each in printed(capsys)[3:-1])
    assert "fragmentation: s11 1.1, then 0; s10" in line
    assert line.endswith("s2 0.2, then 0; and 2 more")


def test_a_pause_is_reported_wherever_a_ring_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    row = RingRow(
        name=RING,
        strategy=StrategyName.SPREAD,
        resources=(),
        shards=0,
        available_shards=0,
        objects=0,
        children=0,
        unassigned=0,
        unowned=0,
        unowned_children=0,
        draining=0,
        ready="True",
        paused=True,
        problem=None,
    )

    tables.rings(RingsReport(rings=(row,)))
    tables.shards(structs.replace(NO_SHARDS, paused=True))
    plan_tables.plan(planned(paused=True))

    told = [line for line in capsys.readouterr().out.splitlines() if "is paused" in line]
    sentence = 'demo is paused; run "sharder resume" to continue'
    assert told == [sentence, sentence, f"{sentence}; --resume previews the moves"]


def test_names_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (shard(ShardName("[red]\x1b[2J\nnew")),)

    tables.shards(structs.replace(NO_SHARDS, shards=rows))

    out = capsys.readouterr().out
    assert r"'[red]\x1b[2J\nnew'" in out
    assert "\x1b" not in out


def cleaned(
    *,
    objects: int = 0,
    failures: int = 0,
    problem: str | None = None,
    forbidden: bool = False,
    dry_run: bool = False,
) -> CleanupReport:
    row = CleanupRow(
        resource="secrets",
        found=objects + failures + 3,
        cleaned=3,
        skipped=objects,
        failed=failures,
        objects=tuple(f"default/s-{n}" for n in range(objects)),
        failures=tuple(
            CleanupFailure(object=f"default/f-{n}", why="no", forbidden=forbidden)
            for n in range(failures)
        ),
        problem=problem,
        forbidden=forbidden,
    )
    return CleanupReport(ring=RING, dry_run=dry_run, looked_at=60, resources=(row,), warnings=())


def test_a_clean_up_is_counted_and_what_failed_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tables.cleanup(cleaned(failures=1, problem="no right"))

    header, *lines = printed(capsys)
    assert header == ["RESOURCE", "FOUND", "CLEANED", "SKIPPED", "FAILED"]
    assert lines[0] == ["secrets", "4", "3", "0", "1"]
    assert [" ".join(line) for line in lines[1:]] == [
        "secrets: no right",
        "secrets default/f-0: no",
    ]


def test_rights_that_are_missing_everywhere_are_reported_once_with_their_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (row,) = cleaned(failures=40, forbidden=True).resources
    unread = structs.replace(
        row, found=0, cleaned=0, failed=0, failures=(), problem="no list", forbidden=True
    )
    resources = (row, *(structs.replace(unread, resource=f"r-{n}") for n in range(58)))
    tables.cleanup(structs.replace(cleaned(), resources=resources))

    assert [" ".join(line) for line in printed(capsys)[1:]] == [
        "secrets 43 3 0 40",
        "no right to list 58 resources, such as r-0: no list",
        "no right to write 40 objects, such as secrets default/f-0: no",
    ]


def test_resources_without_finds_have_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = cleaned(problem="no answer").resources
    empty = structs.replace(row, found=0, cleaned=0)
    tables.cleanup(structs.replace(cleaned(), resources=(empty,)))

    assert capsys.readouterr().out == "secrets: no answer\n"


def test_what_a_dry_run_found_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    tables.cleanup(cleaned(objects=2, dry_run=True))

    assert printed(capsys)[:2] == [["secrets", "default/s-0"], ["secrets", "default/s-1"]]


def test_long_lists_of_a_clean_up_are_cut(capsys: pytest.CaptureFixture[str]) -> None:
    tables.cleanup(cleaned(objects=51, failures=52))

    lines = [" ".join(line) for line in printed(capsys)]
    assert "and 1 more: see -o json" in lines
    assert "and 2 more failed: see -o json" in lines
    assert len(lines) == 50 + 1 + 2 + 50 + 1


def test_a_clean_up_that_finds_nothing_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    tables.cleanup(
        CleanupReport(ring=RING, dry_run=False, looked_at=60, resources=(), warnings=())
    )

    assert capsys.readouterr().out == "nothing left of demo in 60 resources\n"


def certificate(role: CertificateRole, *names: str) -> CertificateRow:
    return CertificateRow(
        role=role,
        subject="CN=sharder",
        serial="AB",
        names=names,
        not_before="2026-03-01T12:00:00Z",
        not_after="2026-05-30T12:00:00Z",
        days_left=80,
        fingerprint="AA:BB",
    )


def test_certificates_that_do_not_serve_are_printed_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tables.certificates(
        CertificatesReport(
            secret="ns/secret",  # noqa: S106 - its name
            phase=None,
            foreign=False,
            requested=None,
            problem="it is empty",
            certificates=(),
        )
    )

    assert printed(capsys)[-1] == ["ns/secret:", "it", "is", "empty"]


@pytest.mark.parametrize("problem", [None, "it has ended"])
def test_a_certificate_that_another_client_made_is_printed_with_that(
    problem: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.certificates(
        CertificatesReport(
            secret="ns/secret",  # noqa: S106 - its name
            phase=None,
            foreign=True,
            requested=None,
            problem=problem,
            certificates=(certificate(CertificateRole.SERVING, "a"),),
        )
    )

    lines = [" ".join(line) for line in printed(capsys)]
    expected = ["ns/secret: not issued by sharder", "ns/secret: it has ended"]
    assert [line for line in lines if line.startswith("ns/")] == expected[: 1 + bool(problem)]


def operated(*, dry_run: bool, before: str | None = None) -> OperationReport:
    change = FieldChange(field="metadata.labels", key="pin", before=before, after=True)
    return OperationReport(
        ring=RING,
        operation=Operation.PIN,
        dry_run=dry_run,
        object="secrets default/s",
        changes=(change,),
        result="it is so",
        objects=None,
        warnings=(),
    )


def test_an_operation_is_reported_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    tables.operation(operated(dry_run=False))

    assert capsys.readouterr().out == "it is so\n"


def test_a_dry_run_of_an_operation_names_what_it_would_write(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tables.operation(operated(dry_run=True))
    tables.operation(operated(dry_run=True, before="\x1b[2J"))

    out = capsys.readouterr().out
    assert "would write to secrets default/s: metadata.labels pin: nothing, then true\n" in out
    assert "\x1b" not in out
