"""Facts about `sharder.cli.app`: exit codes, error lines, quick help, and plans from a dump."""

import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import msgspec
import pytest
import yaml

from sharder import __version__
from sharder.cli.app import run_command
from sharder.core.preview.report import PlanReport
from tests.support.golden import require_golden

SHARDER = Path(sys.executable).with_name("sharder")
DUMP = """
apiVersion: sharding.timebertt.dev/v1alpha1
kind: ControllerRing
metadata: {name: demo}
spec: {resources: [{resource: secrets}]}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  name: shard-a
  namespace: default
  labels: {alpha.sharding.timebertt.dev/controllerring: demo}
spec:
  holderIdentity: shard-a
  leaseDurationSeconds: 15
  acquireTime: 2026-03-01T12:00:00.000000Z
  renewTime: 2026-03-01T12:00:00.000000Z
---
apiVersion: v1
kind: Secret
metadata: {name: one, namespace: default}
---
apiVersion: v1
kind: Secret
metadata:
  name: two
  namespace: default
  labels: {shard.alpha.sharding.timebertt.dev/demo: shard-a}
"""


@pytest.fixture
def dump(tmp_path: Path) -> str:
    file = tmp_path / "dump.yaml"
    file.write_text(DUMP)
    return str(file)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


@pytest.mark.parametrize(
    "command",
    [
        *("", "run", "rings", "rings cleanup", "shards", "explain", "plan", "dump", "certs"),
        *("certs rotate", "cordon", "uncordon", "evacuate", "pause", "resume", "pin", "unpin"),
        *("version", "check", "fence"),
    ],
)
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_command([*command.split(), "--help"])

    assert code == 0
    assert f"\n  sharder {command or 'rings'}" in capsys.readouterr().out.replace(
        "List the rings:            ", ""
    )


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([]) == 0
    assert "sharder plan my-ring" in capsys.readouterr().out


def test_the_version_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["--version"]) == 0
    assert capsys.readouterr().out == f"sharder {__version__}\n"


def test_help_calls_the_program_as_it_was_called(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(["pin", "--help"], "kubectl shard")
    require_golden("help-kubectl-pin", capsys)


def test_commands_are_listed_by_task(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(["--help"])

    _, _, listed = capsys.readouterr().out.partition("Commands:\n")
    commands = [line.split()[0] for line in listed.splitlines()]
    assert commands[:2] == ["rings", "shards"]
    assert commands[-5:] == ["certs", "run", "init", "version", "completion"]


@pytest.mark.parametrize("command", ["", "rings", "certs"])
def test_a_terminal_of_80_columns_shows_whole_what_each_command_does(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run_command([*command.split(), "--help"])

    _, _, listed = capsys.readouterr().out.partition("Commands:\n")
    assert listed
    assert [line for line in listed.splitlines() if line.endswith("...")] == []


def test_an_invalid_call_names_the_help_of_its_command(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(["rings", "cleanup"], "kubectl shard")

    assert "(see kubectl shard rings cleanup --help)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["shards"], "Missing argument 'RING'"),
        (["plan"], "give either RING or --file"),
        (["plan", "demo", "--file", "x"], "give either RING or --file"),
        (["plan", "demo", "--now", "2026-03-01T12:00:00Z"], "--now needs --file"),
        (
            ["plan", "demo", "--strategy", "x"],
            "unknown strategy x; use one of ConsistentHash, Rendezvous, BoundedLoad, Spread, "
            "LeastLoaded, Custom",
        ),
        *(
            (["plan", "x", "--add", text], f"'{text}' is not a whole number from 0 to 1000")
            for text in ("-1", "1001", "two", "1.5", "")
        ),
        (["explain", "demo", "secrets"], "secrets is not an object"),
        (["explain", "demo", "secrets", "a", "b"], "name one object"),
        (["pin", "demo", "secret/a"], "Missing argument 'OBJECT'"),
        (["unpin", "demo", "secret/a", "-n", ""], "--namespace is empty"),
        (["rings", "--watch", "-o", "name"], "--watch cannot be combined with -o name"),
        (["fence", "demo"], "Missing option '--service-account'"),
        (["fence", "demo", "--service-account", "a"], "a is not a ServiceAccount"),
        (["completion", "csh"], "'csh' is not one of 'bash', 'zsh', 'fish'"),
        (["rings", "cleanup"], "Missing argument 'NAME'"),
        (["rings", "--context", "x", "cleanup", "y"], "give options after cleanup, not before"),
        (["certs", "--secret", "x", "rotate"], "give options after rotate, not before"),
        (["evacuate", "a"], "Missing argument 'SHARD'"),
        (["evacuate", "a", "b", "--timeout", "5m"], "--timeout needs --wait"),
        (["evacuate", "a", "b", "--wait", "--timeout", "5"], "'5' is not a duration"),
        (["evacuate", "a", "b", "--wait", "--timeout", "-5s"], "-5s is negative"),
        (
            ["evacuate", "a", "b", "--wait", "--dry-run"],
            "--wait cannot be combined with --dry-run",
        ),
        (["rings", "-o", "xml"], "'xml' is not one of 'table', 'wide', 'name', 'json', 'yaml'"),
        (["run", "--only", "both"], "'both' is not one of 'webhook', 'controllers'"),
    ],
)
def test_an_invalid_call_prints_one_line_and_exits_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_command(arguments)

    told = capsys.readouterr()
    assert (code, told.out, told.err.count("\n")) == (2, "", 1)
    assert told.err.startswith("sharder: ")
    assert message in told.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "--file", "/none"], "cannot read /none: No such file or directory"),
        (["plan", "--file", "/dev/null"], "exactly one ControllerRing, found: none"),
        (["run", "--config", "/none"], "cannot read /none: No such file or directory"),
        (["rings"], "no kubeconfig at "),
        (["rings", "cleanup", "demo"], "no kubeconfig at "),
        (["rings", "cleanup", "a b"], "'a b' is not a valid name of a ControllerRing"),
        (["shards", "demo"], "no kubeconfig at "),
        (["explain", "demo", "secrets", "a/b"], "no kubeconfig at "),
        (["plan", "demo"], "no kubeconfig at "),
        (["cordon", "demo", "a"], "no kubeconfig at "),
        (["uncordon", "demo", "a"], "no kubeconfig at "),
        (["evacuate", "demo", "a"], "no kubeconfig at "),
        (["evacuate", "demo", "a", "--dry-run"], "no kubeconfig at "),
        (["evacuate", "demo", "a", "--wait", "--timeout", "1m"], "no kubeconfig at "),
        (["pause", "demo"], "no kubeconfig at "),
        (["resume", "demo"], "no kubeconfig at "),
        (["pin", "demo", "secrets", "a/b", "c"], "no kubeconfig at "),
        (["unpin", "demo", "secrets", "a/b"], "no kubeconfig at "),
        (["rings", "--watch"], "no kubeconfig at "),
        (["certs"], "no kubeconfig at "),
        (["certs", "rotate"], "no kubeconfig at "),
    ],
)
@pytest.mark.usefixtures("nowhere")
def test_a_failure_prints_one_line_and_exits_with_1(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_command(arguments)

    told = capsys.readouterr()
    assert (code, told.out, told.err.count("\n")) == (1, "", 1)
    assert told.err.startswith("sharder: ")
    assert message in told.err


def test_a_plan_from_a_dump_is_a_table(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_command(["plan", "--file", dump])

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert code == 0
    assert ["shard-a", "ready", "1", "2", "-", "-"] in lines
    assert ["secret", "default/one", "assign", "-", "shard-a"] in lines
    assert lines[-1][:4] == ["ConsistentHash:", "2", "objects,", "1"]


def test_a_plan_is_the_same_in_json_and_yaml(
    dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command(["plan", "--file", dump, "-o", "json"])
    from_json = msgspec.json.decode(capsys.readouterr().out, type=PlanReport)
    run_command(["plan", "--file", dump, "-o", "yaml"])
    from_yaml = msgspec.convert(yaml.safe_load(capsys.readouterr().out), PlanReport)

    assert from_json == from_yaml
    assert from_json.summary.objects == 2


def test_a_plan_shows_what_is_supposed(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    what_if = ["--strategy", "boundedload", "--add", "2", "--remove", "shard-a"]

    run_command(["plan", "--file", dump, *what_if, "-o", "json"])

    report = msgspec.json.decode(capsys.readouterr().out, type=PlanReport)
    assert report.strategy == "BoundedLoad"
    assert [(shard.name, shard.state, shard.load) for shard in report.shards] == [
        ("demo-new-1", "ready", {"objects": 1}),
        ("demo-new-2", "ready", {"objects": 1}),
        ("shard-a", "dead", {"objects": 0}),
    ]


def test_a_shard_to_be_removed_must_be_there(
    dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["plan", "--file", dump, "--remove", "x"]) == 1
    assert "ring demo has no shard x; its shards: shard-a" in capsys.readouterr().err


def test_leases_are_judged_at_the_given_time(
    dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command(["plan", "--file", dump, "--now", "2026-03-01T12:00:20Z", "-o", "json"])

    report = msgspec.json.decode(capsys.readouterr().out, type=PlanReport)
    assert [shard.state for shard in report.shards] == ["expired"]


def test_an_invalid_time_is_refused(dump: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["plan", "--file", dump, "--now", "noon"]) == 1
    assert "--now noon is not a time" in capsys.readouterr().err


def test_a_dump_may_come_from_stdin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(DUMP.encode())))

    run_command(["plan", "--file", "-", "-o", "json"])

    assert msgspec.json.decode(capsys.readouterr().out, type=PlanReport).summary.objects == 2


def test_a_closed_pipe_is_not_reported_as_a_failure(dump: str) -> None:
    with subprocess.Popen(
        [SHARDER, "plan", "--file", dump], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()

    assert (process.returncode, told) == (1, b"")


def test_what_cannot_be_printed_is_reported_in_one_line(dump: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [SHARDER, "plan", "--file", dump],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (done.returncode, done.stderr) == (
        1,
        "sharder: cannot print: No space left on device\n",
    )


def test_many_moves_are_cut_in_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "dump.yaml"
    more = "\n".join(
        f"---\n{{apiVersion: v1, kind: Secret, metadata: {{name: s{i}, namespace: default}}}}"
        for i in range(60)
    )
    file.write_text(DUMP + more)

    run_command(["plan", "--file", str(file)])

    assert "and 11 more: see -o json" in capsys.readouterr().out
