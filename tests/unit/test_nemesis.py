"""Facts about `tests.long.nemesis` that need no server: what it keeps, plays and breaks."""

import os
import subprocess
import sys
from math import inf
from pathlib import Path

import msgspec
import pytest

from sharder.core.api.ring import StrategyName
from sharder.core.names import RingName
from tests.history.judging import judge
from tests.history.traces import Child, Event, Happening, Held, Span, Trace, Work, Write
from tests.long.etcd_history import Stored
from tests.long.nemesis.keeping import keep, kept
from tests.long.nemesis.play import Played
from tests.long.nemesis.recording import Recording, wall_offset
from tests.long.nemesis.report import report
from tests.long.nemesis.stage import PROCESSES, SHARDERS, Setup, code_of, skews_of

WRITES = tuple(
    Write(revision=number, at=number, uid="u", name="one", owner=owner, draining=False, stamp="")
    for number, owner in ((10, "a"), (20, "b"))
)
TRACE = Trace(
    writes=WRITES,
    children=(Child(revision=12, at=12, uid="c", name="child", parent="u", owner="b"),),
    leases=tuple(
        Held(revision=1, at=1, shard=shard, holder=shard, renewed=1, seconds=5) for shard in "ab"
    ),
    events=(Event(at=0, process="b", kind=Happening.PAUSED),),
    outages=(Span(begin=1),),
    leading=(1.0,),
    works=(Work(object="ring secrets demo/one", shard="a", began=11, ended=inf),),
)
PLAYED = Played(
    setup=Setup(seed=7, strategy=StrategyName.SPREAD, fence=False),
    trace=TRACE,
    faults=["kill p0", "kill sharder-1", "forge Lease: twin", "no webhook"],
    requests={"POST": 3},
    fallen=["p0"],
    rest=inf,
)


def test_a_trace_that_was_kept_is_judged_as_before(tmp_path: Path) -> None:
    file = keep(PLAYED, tmp_path)

    assert file.name == "Spread-seed-7-no-fence.trace"
    again = kept(file)
    assert again.setup == PLAYED.setup
    assert judge(again.trace) == judge(TRACE)
    assert judge(TRACE).unacknowledged == ["one: a -> b 10.00 s later"]


def test_a_report_has_the_setup_a_table_and_the_verdict() -> None:
    verdict = judge(TRACE)
    lines = report(PLAYED, verdict, verdict.problems(14)).splitlines()

    assert lines[0] == "seed 7, 3 min, Spread, without fence, 4 shards, 300 objects"
    assert "faults: 4: {'kill': 2, 'forge Lease: twin': 1, 'no webhook': 1}" in lines
    assert "| moved without acknowledgement | 1 |" in lines
    assert "| writes by non-owners | 0 |" in lines
    assert not any("fence refused" in line for line in lines)
    assert "VERDICT: not good" in lines
    assert lines[-1] == "1 moved without acknowledgement: one: a -> b 10.00 s later"


def test_the_clocks_of_a_seed_are_wrong_in_the_same_way_each_time() -> None:
    skews = skews_of(3)

    assert skews == skews_of(3)
    assert skews.keys() == {*PROCESSES, *SHARDERS}
    assert len({skews[name] for name in PROCESSES}) == len(PROCESSES)


@pytest.fixture
def recording() -> Recording:
    skews = {"a": 100.0, "sharder-0": 7.0}
    return Recording(RingName("ring"), "demo", skews=skews)


def lease(name: str, holder: str, renewed: str) -> Stored:
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 5}
    value = msgspec.json.encode({"metadata": {"name": name}, "spec": spec})
    return Stored(revision=1, key=f"leases/x/{name}", value=value, deleted=False, seen=5)


def test_times_are_corrected_by_the_clock_of_the_process_that_wrote_them(
    recording: Recording,
) -> None:
    written, at = "1970-01-01T00:10:00.000000Z", 600 - wall_offset()

    recording._take_leader(lease("sharder", "sharder-0_some-uuid", written))
    for holder in ("a", "ghost-1", "shardlease-controller"):
        recording._take_lease(lease("a", holder, written))

    seconds = [each.renewed - at for each in recording.leases]
    assert [round(each) for each in seconds] == [-100, 0, -7]
    assert [round(each - at) for each in recording.leading] == [-7]


def test_a_process_has_the_bug_that_its_environment_names() -> None:
    code = "from webhook.review import encode; print(encode.__code__.co_code.hex())"
    command = [sys.executable, "-P", "-c", code]

    def has_bug(mutant: str) -> str:
        environment = dict(os.environ) | dict(code_of(mutant))
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    assert has_bug("") != has_bug("refusals")
