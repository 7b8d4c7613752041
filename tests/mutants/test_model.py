"""The model of the protocol notices bugs: each deliberate one is found, and the code has none."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

import sharder
from tests.property.model.mutants import MUTANTS, Mutant
from tests.property.model.trial import MACHINES

REPOSITORY = Path(__file__).parents[2]
PACKAGE = Path(sharder.__file__).parent

SAMPLE = frozenset(
    {
        "takes objects from missing shards",  # S1b
        "lets any client change an owner",  # S2
        "takes a Lease without a guard",  # S3
        "removes labels that are not there",  # S4
        "gives to a shard whose name is held twice",  # S5
        "makes owners depend on the order of the shards",  # S6
        "looks after objects in namespaces that are not selected",  # S7
        "takes a Lease without a new epoch",  # S8
        "moves what is controlled before its owner has left",  # S9
        "observes its own state label",  # S10
        "does not follow a pin",  # L1
        "leaves the drain label on what it assigns",  # L3
        "believes the counts before everything is listed",  # B1
        "fills shards beyond their ceiling",  # B2
        "never withdraws what a shard has room for again",  # B3
        "goes on draining while movement is paused",  # P1
    }
)
"""For each law one that is found within seconds; `make test-long` tries all."""

HANGS_SECONDS = 1800
"""After so long a trial has hung: what takes one minute takes ten of what is left by others."""

Trial = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def trials(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Trial]]]:
    """The mutants on trial that tests ask for, by name, as many at a time as processors."""
    wanted = {
        item.callspec.params.get("name")
        for item in request.session.items
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
    }
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {
            mutant.name: pool.submit(try_out_mutant, mutant, tmp_path_factory.mktemp("mutant"))
            for mutant in MUTANTS
            if mutant.name in wanted
        }
        pool.shutdown(cancel_futures=True)


def try_out_mutant(mutant: Mutant, directory: Path) -> Trial:
    package = directory / PACKAGE.name
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    mutant.apply(package)
    return try_out(package, mutant.machine)


def try_out(package: Path, machine: str) -> Trial:
    """Run a state machine on the package, in a process of its own."""
    # Not measured: what a mutant executes says nothing about the code's coverage.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    environment["PYTHONPATH"] = f"{package.parent}{os.pathsep}{REPOSITORY}"
    trial = subprocess.run(
        # It leaves the processors to whatever else runs, which may look at the clock.
        ["nice", sys.executable, "-m", "tests.property.model.trial", machine],
        cwd=package.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
    )
    assert trial.stdout.splitlines()[:1] == [str(package)], trial.stderr
    return trial


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(mutant.name, marks=() if mutant.name in SAMPLE else pytest.mark.long)
        for mutant in MUTANTS
    ],
)
def test_a_bug_breaks_a_law(name: str, trials: dict[str, Future[Trial]]) -> None:
    trial = trials[name].result()

    assert trial.returncode == 1, f"no law notices that it {name}"
    assert "Traceback" not in trial.stderr


def test_the_sample_is_of_mutants_that_there_are() -> None:
    assert {mutant.name for mutant in MUTANTS} >= SAMPLE


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
def test_without_a_bug_all_laws_hold(machine: str) -> None:
    trial = try_out(PACKAGE, machine)

    assert trial.returncode == 0, trial.stdout + trial.stderr


def test_a_bug_whose_place_is_gone_is_reported(tmp_path: Path) -> None:
    mutant = MUTANTS[0]
    source = tmp_path / mutant.module
    source.parent.mkdir(parents=True)
    source.write_text("nothing of that kind\n", encoding="utf-8")

    with pytest.raises(LookupError, match="0 times"):
        mutant.apply(tmp_path)
