"""What `sharder init` writes is a whole project that passes its own checks."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from sharder.cli.app import run_command
from sharder.cli.init import create, templates
from sharder.core.errors import ConfigError
from tests.support.documents import ROOT


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create("secret-sums", tmp_path_factory.mktemp("projects"))


def run(project: Path, *command: str) -> str:
    """Run a module of Python in the project, with the packages of this environment."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_project_has_all_files_and_no_placeholder(project: Path) -> None:
    written = {
        str(path.relative_to(project)): path.read_text()
        for path in project.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    expected = {path.replace("my_controller", "secret_sums") for path, _ in templates()}
    assert set(written) == expected
    assert [path for path, text in written.items() if re.search("my[-_]controller", text)] == []


@pytest.mark.slow
def test_the_tests_of_the_project_pass(project: Path) -> None:
    assert "4 passed" in run(project, "pytest", "-q", "-p", "no:cacheprovider")


def test_the_controller_explains_what_it_lacks(project: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "secret_sums"],
        cwd=project,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "SHARD_NAMESPACE": "default",
            "KUBECONFIG": str(tmp_path / "none"),
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert f"shard failed: no kubeconfig at {tmp_path / 'none'}" in done.stderr


def test_the_manifests_fit_together(project: Path) -> None:
    manifests = {
        path.stem: list(yaml.safe_load_all(path.read_text()))
        for path in (project / "deploy").glob("*.yaml")
    }
    (kustomization,) = manifests.pop("kustomization")
    (ring,), (dev,) = manifests["ring"], manifests["ring-dev"]

    assert {f"{name}.yaml" for name in manifests} == {*kustomization["resources"], "ring-dev.yaml"}
    assert ring["spec"]["resources"] == dev["spec"]["resources"]
    assert ring["spec"]["namespaceSelector"] != dev["spec"]["namespaceSelector"]
    assert ring["spec"]["shardNamespaces"] == dev["spec"]["shardNamespaces"] == ["secret-sums"]


def test_nothing_is_overwritten(project: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot write .*secret-sums: File exists"):
        create("secret-sums", project.parent)


@pytest.mark.parametrize("name", ["Sums", "sums-", "-sums", "2sums", "class", "a" * 41, "", "a/b"])
def test_a_name_that_does_not_fit_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a valid name"):
        create(name, tmp_path)


def test_the_command_says_what_to_do_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    code = run_command(["init", "sums"])

    assert code == 0
    assert capsys.readouterr().out == "wrote sums: continue with sums/README.md\n"
    assert (tmp_path / "sums/sums/controller.py").is_file()
