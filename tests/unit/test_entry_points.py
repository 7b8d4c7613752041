"""Strategies that are installed beside the sharder are found, and bad ones left out."""

import logging
import sys
from pathlib import Path

import pytest

from sharder.config.strategies import installed
from sharder.core.leases.shard import Shard
from sharder.core.names import ShardName
from sharder.core.placement.demand import Demand
from sharder.core.placement.tally import Tally
from tests.support.documents import ROOT

SAMPLES = ROOT / "tests/support/custom_strategy"
A, B = (Shard(name=ShardName(f"shard-{letter}")) for letter in "ab")


@pytest.fixture
def samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SAMPLES)


def install(path: Path, package: str, entry_points: str, module: str = "") -> None:
    """Install a package into a directory: its description, and a module of the same name."""
    info = path / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[sharder.placement]\n{entry_points}\n")
    (path / f"{package}.py").write_text(module)


def why(record: logging.LogRecord) -> object:
    return vars(record)["why"]


@pytest.mark.usefixtures("samples")
@pytest.mark.parametrize(
    ("entry", "module", "reason"),
    [
        ("mine = absent_module:choose", "", "ModuleNotFoundError: No module named"),
        ("mine = bad_strategy:choose", "", "AttributeError: module 'bad_strategy' has no"),
        ("mine = bad_strategy:choose", "1 / 0", "ZeroDivisionError: division by zero"),
        ("mine = bad_strategy:choose", "choose = 'shard-a'", "a str is not callable"),
        ("mine = bad_strategy", "", "a module is not callable"),
        ("mine = : ", "", "AttributeError: "),
    ],
)
def test_one_that_cannot_be_used_is_left_out_with_one_warning(
    entry: str,
    module: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delitem(sys.modules, "bad_strategy", raising=False)
    install(tmp_path, "bad_strategy", entry, module)
    monkeypatch.syspath_prepend(tmp_path)

    functions = installed()

    assert functions.keys() == {"fullest-first", "nonsense"}
    assert [record.getMessage() for record in caplog.records] == ["skipping an installed strategy"]
    assert str(why(caplog.records[0])).startswith(f"{entry.strip()}: {reason}")


def test_the_first_of_two_with_one_name_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for package in ("second_strategy", "first_strategy"):
        module = f"def choose(demand, candidates, counts):\n    return {package!r}\n"
        install(tmp_path / package, package, f"mine = {package}:choose", module)
        monkeypatch.syspath_prepend(tmp_path / package)

    functions = installed()

    assert functions["mine"](Demand("key", 2), (A, B), Tally()) == "first_strategy"
    assert [why(record) for record in caplog.records] == [
        "mine = second_strategy:choose: the name is already used by first_strategy:choose"
    ]
