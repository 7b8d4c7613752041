"""Facts about completion: what is proposed, to which shell, and what never is."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.main import get_group

from sharder.cli import candidates, completion
from sharder.cli.app import _app
from sharder.core.api.meta import Json
from sharder.core.names import ObjectRef
from tests.support.read_cluster import ReadCluster
from tests.support.values import DEMO, SECRETS, WIDGETS, A, B, obj

SHARDER = Path(sys.executable).with_name("sharder")
FOR_KUBECTL = Path(sys.executable).with_name("kubectl_complete-shard")


@pytest.fixture
async def cluster() -> ReadCluster:
    filled = await ReadCluster().filled()
    await filled.add(WIDGETS, obj(WIDGETS, "one"))
    await filled.add(WIDGETS, obj(WIDGETS, "two", namespace="other"))
    await filled.add(SECRETS, obj(SECRETS, "one"))
    return filled


async def test_rings_and_the_shards_of_a_ring_are_proposed(cluster: ReadCluster) -> None:
    assert await candidates.rings(cluster.cluster) == [DEMO]
    assert await candidates.shards(cluster.cluster, ring=DEMO) == [A, B]
    assert await candidates.shards(cluster.cluster, ring="other") == []


@pytest.mark.parametrize(
    ("words", "namespace", "incomplete", "proposals"),
    [
        ([], "", "", ["configmaps", "secrets", "widgets.example.com"]),
        (["widgets"], "", "", ["default/one", "other/two"]),
        (["Widget"], "", "other/", ["other/two"]),
        (["widgets"], "other", "", ["two"]),
        (["widgets", "x"], "other", "t", ["two"]),
        ([], "", "widget/", ["widget/default/one", "widget/other/two"]),
        ([], "other", "widget/", ["widget/two"]),
        (["secret/one"], "default", "", ["configmaps/", "secrets/", "widgets.example.com/"]),
        (["pods"], "", "", []),
    ],
)
async def test_resources_and_then_their_objects_are_proposed(
    cluster: ReadCluster, words: Sequence[str], namespace: str, incomplete: str,
    proposals: Sequence[str],
) -> None:  # fmt: skip
    found = await candidates.objects(
        cluster.cluster, ring=DEMO, words=words, namespace=namespace, incomplete=incomplete
    )

    assert found == proposals


async def test_a_resource_that_is_not_served_is_not_proposed(cluster: ReadCluster) -> None:
    resources: list[Json] = [{"group": "", "resource": "secrets"}, {"resource": "gone"}]
    await cluster.rings.patch(ObjectRef("", DEMO), {"spec": {"resources": resources}})

    found = await candidates.objects(
        cluster.cluster, ring=DEMO, words=[], namespace="", incomplete=""
    )

    assert found == ["secrets"]


def test_every_command_that_takes_rings_proposes_them() -> None:
    commands = get_group(_app).commands.items()
    takes = [
        (name, param._custom_shell_complete)
        for name, command in commands
        for param in command.params
        if param.metavar in {"RING", "[RING]..."}
    ]

    assert {"check", "plan", "top", "pause", "dump"} <= {name for name, _ in takes}
    assert [name for name, complete in takes if complete is None] == []


@pytest.mark.parametrize("name", ["$(reboot)", "a b", "a;b", "`a`", "a\nb", "a'b", "ä", ""])
def test_what_a_shell_could_run_is_not_proposed(name: str) -> None:
    assert not completion.is_proposed(name, "")


@pytest.mark.parametrize("name", ["a-1", "a.b", "default/a", "system:a", "a_b"])
def test_names_that_begin_so_are_proposed(name: str) -> None:
    assert completion.is_proposed(name, name[:1])
    assert not completion.is_proposed(name, "x")


def nowhere(tmp_path: Path, **variables: str) -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": str(tmp_path / "none"), **variables}


def test_commands_are_proposed_and_without_a_cluster_no_names(tmp_path: Path) -> None:
    def proposed(words: str, place: int) -> tuple[str, str]:
        variables = {"_SHARDER_COMPLETE": "complete_bash", "COMP_WORDS": words}
        done = subprocess.run(
            [SHARDER],
            capture_output=True,
            text=True,
            check=True,
            env=nowhere(tmp_path, **variables, COMP_CWORD=str(place)),
        )
        return done.stdout.strip(), done.stderr

    assert proposed("sharder evac", 1) == ("evacuate", "")
    assert proposed("sharder shards my-ring -o n", 4) == ("name", "")
    assert proposed("sharder shards ", 2) == ("", "")
    assert proposed("sharder pin my-ring secrets a/b ", 5) == ("", "")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["evac"], "evacuate\n:4\n"),
        (["rings", "-o", "w"], "wide\n:4\n"),
        (["shards", ""], ":4\n"),
        (["no such command", "x"], ":4\n"),
    ],
)
def test_kubectl_is_answered_in_its_protocol(
    words: Sequence[str], answer: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [FOR_KUBECTL, *words], capture_output=True, text=True, check=True, env=nowhere(tmp_path)
    )

    assert (done.stdout, done.stderr) == (answer, "")


def test_the_script_for_bash_is_one_that_bash_completes_by(tmp_path: Path) -> None:
    script = (
        f"PATH={SHARDER.parent}:$PATH; source <(sharder completion bash)\n"
        "COMP_WORDS=(sharder unc); COMP_CWORD=1; _sharder_completion sharder\n"
        "echo ${COMPREPLY[@]}"
    )

    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, env=nowhere(tmp_path)
    )

    assert (done.stdout, done.stderr) == ("uncordon\n", "")


@pytest.mark.parametrize(("shell", "line"), [("zsh", "#compdef sharder"), ("fish", "complete ")])
def test_there_is_a_script_for_every_shell(shell: str, line: str) -> None:
    done = subprocess.run(
        [SHARDER, "completion", shell], capture_output=True, text=True, check=True
    )

    assert line in done.stdout
    assert f"_SHARDER_COMPLETE=complete_{shell}" in done.stdout
