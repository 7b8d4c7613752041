"""Where the control plane's programs come from; a shell script stands in for Go."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hack.binaries import CONTROL_PLANE, GOSHARD, LIBSHARD, OLDEST_CONTROL_PLANE

ROOT = Path(__file__).parents[2]
FAKE_GO = """#!/bin/sh
echo "$1" >> "$CALLS"
case "$1 $2" in
  env*) echo /nowhere ;;
  build*)
    echo "compiling one" >&2
    for program in server kube-apiserver kubectl; do
      echo '#!/bin/sh' > "$3/$program"; chmod +x "$3/$program"
    done
    exit "$BUILD_EXIT_CODE" ;;
esac
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Variables under which Go is the fake one, and nothing has been built."""
    go = tmp_path / "path" / "go"
    go.parent.mkdir()
    go.write_text(FAKE_GO)
    go.chmod(0o755)
    return {
        "PATH": f"{go.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "CALLS": str(tmp_path / "calls"),
        "BUILD_EXIT_CODE": "0",
    }


def start(environment: dict[str, str], tools: str = "control-plane") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hack.binaries", tools],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(environment: dict[str, str], tools: str = "control-plane") -> tuple[int, str, str]:
    """Return exit code, standard output and standard error."""
    process = start(environment, tools)
    output, errors = process.communicate()
    return process.returncode, output, errors


def count_builds(environment: dict[str, str]) -> int:
    return Path(environment["CALLS"]).read_text().splitlines().count("build")


def cached(environment: dict[str, str]) -> list[Path]:
    """Return what is in the cache, locks aside."""
    found = Path(environment["XDG_CACHE_HOME"], "sharder").iterdir()
    return [path for path in found if path.suffix != ".lock"]


def test_what_was_built_is_not_built_again(environment: dict[str, str]) -> None:
    first = run(environment)

    second = run(environment)

    assert second[:2] == first[:2]
    assert count_builds(environment) == 1


def test_two_builders_at_once_build_once(environment: dict[str, str]) -> None:
    builders = [start(environment), start(environment)]

    outputs = {builder.communicate()[0] for builder in builders}

    assert outputs == {f"{cached(environment)[0]}\n"}
    assert count_builds(environment) == 1


def test_a_failed_build_shows_its_last_words_and_leaves_no_programs(
    environment: dict[str, str],
) -> None:
    code, output, errors = run({**environment, "BUILD_EXIT_CODE": "1"})

    assert (code, output) == (1, "")
    assert "compiling one" in errors
    assert [path.name for path in cached(environment)] == ["control-plane.build"]


def test_a_named_directory_without_the_programs_is_an_error(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "etcd").touch(mode=0o755)

    code, _, errors = run({**environment, "KUBEBUILDER_ASSETS": str(tmp_path)})

    assert code == 1
    assert errors.count("\n") == 1
    assert f"KUBEBUILDER_ASSETS={tmp_path} holds no kube-apiserver, kubectl" in errors


def test_a_program_is_built_anew_when_its_source_has_changed(tmp_path: Path) -> None:
    module = shutil.copytree(GOSHARD.module, tmp_path / "goshard")
    tools = replace(GOSHARD, module=module)
    before = tools.cached

    with (module / "main.go").open("a") as source:
        source.write("// changed\n")

    assert tools.cached != before


def test_the_oldest_control_plane_is_that_of_the_version_that_is_promised() -> None:
    (row,) = re.findall(
        r"^\| Kubernetes \| (\S+) \|", (ROOT / "README.md").read_text(), re.MULTILINE
    )

    assert OLDEST_CONTROL_PLANE.version.startswith(f"v{row}.")
    assert OLDEST_CONTROL_PLANE.cached != CONTROL_PLANE.cached


def test_the_documents_name_the_version_of_the_library_that_is_tried() -> None:
    named = {
        file: set(re.findall(r"library[^\n]{0,80}? (v\d+\.\d+\.\d+)", (ROOT / file).read_text()))
        for file in ("README.md", "docs/migrate.md", "docs/shard-your-controller.md")
    }

    assert named == {file: {LIBSHARD.version} for file in named}
