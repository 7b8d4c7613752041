"""What the commands that list things print, as a whole: tests/unit/cli/golden has the texts."""

from collections.abc import Callable
from functools import partial

import pytest
from msgspec import structs

from sharder.cli import tables
from sharder.cli.reports import (
    CertificateRole,
    CertificateRow,
    CertificatesReport,
    RingRow,
    RingsReport,
    ShardRow,
    ShardsReport,
)
from sharder.core.api.ring import StrategyName
from sharder.core.names import RingName, ShardName
from sharder.core.status.phases import ShardPhase
from tests.support.golden import FOLDER, require_golden

RING = RingName("my-controller")

GOOD = RingRow(
    name=RING,
    strategy=StrategyName.CONSISTENT_HASH,
    resources=("configmaps", "secrets"),
    shards=3,
    available_shards=2,
    objects=1200,
    children=2400,
    unassigned=1,
    unowned=401,
    unowned_children=802,
    draining=4,
    ready="True",
    problem=None,
)
RINGS = RingsReport(
    rings=(
        GOOD,
        structs.replace(GOOD, name=RingName("frozen"), paused=True),
        structs.replace(
            GOOD,
            name=RingName("secrets-of-all-tenants"),
            objects=None,
            children=None,
            unassigned=None,
            unowned=None,
            unowned_children=None,
            draining=None,
            ready="False",
            problem="no right to list secrets",
        ),
    )
)

FREE = ShardRow(
    name=ShardName("my-controller-7d4b9c6f8d-x2x9p"),
    namespace="my-controller",
    state=ShardPhase.READY,
    available=True,
    cordoned=False,
    evacuating=False,
    region="",
    zone="",
    pool="",
    weight=1.0,
    capacity={},
    objects=601,
    children=1202,
    draining=4,
    renew_time=None,
    renewed_seconds_ago=3.2,
    problem=None,
    mistakes=(),
)


def shard(suffix: str, **changes: object) -> ShardRow:
    name = ShardName(f"my-controller-7d4b9c6f8d-{suffix}")
    return structs.replace(FREE, name=name, **changes)


SHARDS = ShardsReport(
    ring=RING,
    paused=True,
    shards=(
        FREE,
        shard("4kq7z", cordoned=True, zone="zone-a", renewed_seconds_ago=-0.4),
        shard("9wm2c", cordoned=True, evacuating=True, region="eu", zone="b", weight=2.5),
        shard("b8n5t", state=ShardPhase.LOST, available=False, renewed_seconds_ago=124.0),
        shard("ghj2k", capacity={"cpu": "4", "objects": "6000"}, mistakes=("weight: no number",)),
        shard(
            "k8w2c",
            state=ShardPhase.LEAVING,
            available=False,
            renewed_seconds_ago=None,
            problem="renewTime is missing",
        ),
    ),
    objects=1,
    children=0,
    unassigned=1,
    unowned=1,
    unowned_children=0,
    draining=0,
)


def certificate(role: CertificateRole, *names: str) -> CertificateRow:
    return CertificateRow(
        role=role,
        subject="CN=sharder webhook",
        serial="4A3F5C5D6E1B2C7F8091A2B3C4D5E6F708192A3B",
        names=names,
        not_before="2026-03-01T11:00:00Z",
        not_after="2026-05-30T12:00:00Z",
        days_left=89,
        fingerprint=":".join(["8F"] * 32),
    )


CERTIFICATES = CertificatesReport(
    secret="sharding-system/sharder-certificates",  # noqa: S106 - its name
    phase="introducing",
    foreign=False,
    requested="authority",
    problem=None,
    certificates=(
        certificate(CertificateRole.SERVING, "sharder", "sharder.sharding-system.svc"),
        certificate(CertificateRole.ISSUING),
    ),
)


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("rings", partial(tables.rings, RINGS)),
        ("rings-wide", partial(tables.rings, RINGS, form="wide")),
        ("rings-name", partial(tables.rings, RINGS, form="name")),
        ("rings-none", partial(tables.rings, RingsReport(rings=()))),
        ("shards", partial(tables.shards, SHARDS)),
        ("shards-wide", partial(tables.shards, SHARDS, form="wide")),
        ("shards-name", partial(tables.shards, SHARDS, form="name")),
        ("shards-none", partial(tables.shards, structs.replace(SHARDS, shards=()))),
        ("certs", partial(tables.certificates, CERTIFICATES)),
        ("certs-wide", partial(tables.certificates, CERTIFICATES, form="wide")),
    ],
)
def test_a_list_is_printed_as_a_whole(
    name: str, draw: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    draw()

    require_golden(name, capsys)


@pytest.mark.parametrize("name", ["rings", "shards", "certs"])
def test_the_default_columns_fit_80_with_names_of_pods(name: str) -> None:
    lines = (FOLDER / f"{name}.txt").read_text().splitlines()

    assert [line for line in lines if len(line) > 80] == []


def test_a_name_longer_than_a_terminal_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    name = ShardName("s" * 253)

    tables.shards(structs.replace(SHARDS, shards=(structs.replace(FREE, name=name),)))

    assert f"\n{name}   ready " in capsys.readouterr().out
