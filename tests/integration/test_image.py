"""What the Dockerfile installs works, and is what the lock says; carried out without Docker."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharder import __version__
from tests.support.dockerfile import Build, Instruction, stages
from tests.support.locks import RUNTIME, entries

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the first stage was carried out; pip downloads, as it does in a build."""
    root = tmp_path_factory.mktemp("image")
    try:
        Build(root).run(stages()[0])
        yield root
    except subprocess.CalledProcessError as problem:
        raise AssertionError(problem.stdout) from problem
    finally:
        shutil.rmtree(root)


def test_the_program_of_the_image_runs(root: Path) -> None:
    done = _run(root / "opt/sharder/bin/sharder", "--version")

    assert done == f"sharder {__version__}\n"


def test_all_of_the_service_can_be_imported(root: Path) -> None:
    python = root / "opt/sharder/bin/python"

    assert (
        _run(python, "-I", "-c", "import sharder.cli.serve.service, uvloop; print('yes')")
        == "yes\n"
    )


def test_nothing_is_installed_but_the_sharder_and_what_is_locked(root: Path) -> None:
    pip, python = root / "opt/build/bin/pip", root / "opt/sharder/bin/python"
    listed = json.loads(_run(pip, "--python", str(python), "list", "--format=json"))
    installed = {each["name"].lower().replace("_", "-"): each["version"] for each in listed}

    assert installed == entries(RUNTIME) | {"sharder": __version__}


def test_a_file_with_another_hash_is_not_installed(tmp_path: Path) -> None:
    stage = stages()[0]
    first = [each.word for each in stage].index("RUN")
    zeros = f"sed -i -E s/sha256:[0-9a-f]{{8}}/sha256:{8 * '0'}/ hack/requirements.lock"

    with pytest.raises(subprocess.CalledProcessError) as refused:
        Build(tmp_path).run([*stage[:first], Instruction("RUN", zeros), stage[first]])

    assert "DO NOT MATCH THE HASHES" in refused.value.stdout


def _run(*command: Path | str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
