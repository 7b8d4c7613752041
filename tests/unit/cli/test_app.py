"""Facts about `sharder.cli.app`: exit codes, error lines, quick help, and plans from a dump."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import yaml

from sharder.cli.app import run_command
from sharder.cli.command import COMMANDS, Command
from sharder.core.plan.plan import PlanReport

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


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_fits_80_columns(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_command([command, "--help"])

    told = capsys.readouterr().out
    assert code == 0
    assert f"\n  sharder {command}" in told
    assert [line for line in told.splitlines() if len(line) > 80 and " | jq" not in line] == []


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"]])
def test_all_commands_fit_one_screen(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(words) == 0

    lines = capsys.readouterr().out.splitlines()
    assert {line[8:].split(" ")[0] for line in lines} >= COMMANDS.keys()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_help_calls_the_program_as_it_was_called(capsys: pytest.CaptureFixture[str]) -> None:
    run_command(["pin", "--help"], "kubectl shard")

    told = capsys.readouterr().out
    assert told.startswith("usage: kubectl shard pin [-h] ")
    assert "as in kubectl shard shards" in " ".join(told.split())
    assert "\n  kubectl shard pin my-ring secret/my-secret -n default --remove\n" in told
    assert "sharder" not in told.replace("the sharder", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bogus"], "no such command: bogus"),
        (["shards"], "required: RING"),
        (["plan"], "give either RING or --file"),
        (
            ["plan", "demo", "--strategy", "x"],
            "unknown strategy x; use one of ConsistentHash, Rendezvous, BoundedLoad, Spread, "
            "LeastLoaded, Custom",
        ),
        *(
            (["plan", "x", "--add", text], f"--add '{text}' is neither a number nor a name")
            for text in ("-1", "1.5", "", "a b")
        ),
        (["plan", "x", "--add", "900", "--add", "101"], "--add adds more than 1000 shards"),
        (["explain", "demo", "secrets"], "secrets is not an object"),
        (["explain", "demo", "secrets", "a", "b"], "name one object"),
        (["pin", "demo", "secret/a"], "required: SHARD"),
        (["pin", "demo", "secret/a", "--remove", "-n", ""], "--namespace is empty"),
        (["pin", "demo", "secret/a", "b", "--remove"], "give no SHARD with --remove"),
        (["objects", "demo", "--draining", "--apart"], "give one of --draining, --unassigned"),
        (["fence", "demo"], "required: --service-account"),
        (["fence", "demo", "--service-account", "a"], "a is not NAMESPACE/NAME"),
        (["fence", "demo", "--service-account", 'a/b"'], 'a/b" is not NAMESPACE/NAME'),
        (["inject", "demo", "--image", ""], "inject needs --image"),
        (["inject", "Demo", "--image", "x"], "'Demo' is not a valid name of a ControllerRing"),
        (["proxy", "demo", "--port", "x"], "argument --port: invalid int value: 'x'"),
        (["evacuate", "a", "b", "--timeout", "5m"], "--timeout needs --wait"),
        (["evacuate", "a", "b", "--wait", "--timeout", "5"], "'5' is not a duration"),
        (["evacuate", "a", "b", "--wait", "--timeout=-5s"], "-5s is negative"),
        (
            ["evacuate", "a", "b", "--wait", "--dry-run"],
            "--wait cannot be combined with --dry-run",
        ),
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
    assert told.err.endswith(" --help)\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "--file", "/none"], "cannot read /none: No such file or directory"),
        (["plan", "--file", "/dev/null"], "exactly one ControllerRing, found: none"),
        (["run", "--config", "/none"], "cannot read /none: No such file or directory"),
        (["rings"], "no kubeconfig at "),
        (["evacuate", "demo", "a", "--wait", "--timeout", "1m"], "no kubeconfig at "),
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


def test_a_plan_is_the_same_in_json_and_yaml(
    dump: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command(["plan", "--file", dump, "-o", "json"])
    from_json = msgspec.json.decode(capsys.readouterr().out, type=PlanReport)
    run_command(["plan", "--file", dump, "-o", "yaml"])
    from_yaml = msgspec.convert(yaml.safe_load(capsys.readouterr().out), PlanReport)

    assert from_json == from_yaml
    assert from_json.summary.objects == 2


def test_only_an_error_of_the_output_is_one_of_printing(
    dump: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = Command(name="console", arguments=(), run=lambda _: Path("/none").unlink())
    monkeypatch.setitem(COMMANDS, "console", command)
    run_command(["console"])
    for to, why in {">/dev/full": "No space left on device", ">&-": "Bad file descriptor"}.items():
        words = ["sh", "-c", f'"$0" plan --file "$1" {to}', str(SHARDER), dump]
        plan = subprocess.run(words, capture_output=True, check=False)
        assert (plan.returncode, plan.stderr) == (1, f"sharder: cannot print: {why}\n".encode())

    assert capsys.readouterr().err == "sharder: [Errno 2] No such file or directory: '/none'\n"


def test_a_closed_pipe_is_not_reported_as_a_failure(dump: str) -> None:
    with subprocess.Popen(
        [SHARDER, "plan", "--file", dump], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read()

    assert (process.returncode, told) == (1, b"")
