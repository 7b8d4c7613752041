"""Facts about completion: what is proposed, to which shell, and what never is."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharder.cli import completion
from sharder.cli.app import complete_for_kubectl, run_command

SHARDER = Path(sys.executable).with_name("sharder")
FOR_KUBECTL = Path(sys.executable).with_name("kubectl_complete-shard")


@pytest.mark.parametrize("name", ["$(reboot)", "a b", "a;b", "`a`", "a\nb", "a'b", "ä", ""])
def test_what_a_shell_could_run_is_not_proposed(name: str) -> None:
    assert not completion.is_proposed(name, "")


@pytest.mark.parametrize("name", ["a-1", "a.b", "default/a", "system:a", "a_b"])
def test_names_that_begin_so_are_proposed(name: str) -> None:
    assert completion.is_proposed(name, name[:1])
    assert not completion.is_proposed(name, "x")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """There is no cluster; what completion does to this process is undone."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("words", "proposals"),
    [
        (["evac"], "evacuate\n"),
        (["rings", "-o", "w"], "wide\n"),
        (["ru"], "run\n"),
        (["evacuate", "demo", "a", "--w"], "--wait\n"),
        (["completion", "z"], "zsh\n"),
        (["shards", ""], ""),
        (["shards", "my-ring", "-o", "n"], "name\n"),
        (["pin", "my-ring", "secrets", "a/b", ""], ""),
        (["cordon", "-o", ""], "json\ntable\nyaml\n"),
        (["certs", "--rotate", "a"], "authority\n"),
        (["no such command", "x"], ""),
    ],
)
@pytest.mark.usefixtures("nowhere")
def test_commands_are_proposed_and_without_a_cluster_no_names(
    words: list[str], proposals: str, capsys: pytest.CaptureFixture[str]
) -> None:
    complete_for_kubectl(words)

    told = capsys.readouterr()
    assert (told.out, told.err) == (f"{proposals}:4\n", "")


@pytest.mark.usefixtures("nowhere")
def test_kubectl_is_answered_in_its_protocol() -> None:
    done = subprocess.run([FOR_KUBECTL, "evac"], capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("evacuate\n:4\n", "")


@pytest.mark.usefixtures("nowhere")
def test_the_script_for_bash_is_one_that_bash_completes_by() -> None:
    script = (
        f"PATH={SHARDER.parent}:$PATH; source <(sharder completion bash)\n"
        "COMP_WORDS=(sharder unc); COMP_CWORD=1; _sharder_completion sharder\n"
        "echo ${COMPREPLY[@]}"
    )

    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("uncordon\n", "")


@pytest.mark.parametrize(("shell", "line"), [("zsh", "#compdef sharder"), ("fish", "complete ")])
@pytest.mark.usefixtures("nowhere")
def test_there_is_a_script_for_every_shell(
    shell: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command(["completion", shell])

    script = capsys.readouterr().out
    assert line in script
    assert " __complete " in script
