"""`make kind` up to what only nodes can do: all but the engine is real, and no pod ever runs.

`tests/integration/test_image.py` has the Dockerfile.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack import binaries
from hack.control_plane import ControlPlane
from tests.support.documents import ROOT

SCRIPT = ROOT / "hack/kind.sh"
ENGINES = {
    "kind": """\
docker build --tag IMAGE .
kind get clusters
kind create cluster --name sharder
kind load docker-image IMAGE --name sharder
""",
    "k3d": """\
docker build --tag IMAGE .
k3d cluster get sharder
k3d cluster create sharder
k3d image import IMAGE --cluster sharder
""",
}
RECORD = '#!/bin/sh\necho "$(basename "$0") $*" >>"$RECORD"\n[ "$2" != get ]\n'
NO_NODES = '#!/bin/sh\ncase "$*" in *"rollout status"*) exit 0 ;; esac\nexec {kubectl} "$@"\n'


class Machine:
    """A PATH with a stand-in for the engines, and kubectl that does not wait for pods."""

    def __init__(self, folder: Path, plane: ControlPlane, *engines: str) -> None:
        kubeconfig = folder / "kubeconfig"
        shutil.copy(plane.admin_kubeconfig, kubeconfig)
        self.record = folder / "record"
        self.record.touch()
        self._bin = folder / "bin"
        self._bin.mkdir()
        for engine in engines:
            self._program(engine, RECORD)
        self._program("kubectl", NO_NODES.format(kubectl=binaries.control_plane() / "kubectl"))
        (self._bin / "helm").symlink_to(binaries.helm())
        for name in ("bash", "basename", "cat", "dirname", "grep", "head", "sed", "seq"):
            (self._bin / name).symlink_to(str(shutil.which(name)))
        self._environment = {
            "PATH": str(self._bin),
            "HOME": str(folder),
            "RECORD": str(self.record),
            "KUBECONFIG": str(kubeconfig),
        }
        now = "$(kubectl config current-context)"
        self.run(f"kubectl config rename-context {now} {engines[-1]}-sharder")

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            env=self._environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )

    def _program(self, name: str, text: str) -> None:
        (self._bin / name).write_text(text)
        (self._bin / name).chmod(0o755)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        yield plane


@pytest.mark.parametrize(("engine", "asked"), ENGINES.items())
def test_the_example_runs_with_the_image_that_was_loaded(
    tmp_path: Path, plane: ControlPlane, engine: str, asked: str
) -> None:
    machine = Machine(tmp_path, plane, "docker", engine)

    done = machine.run(str(SCRIPT))

    assert done.returncode == 0, done
    found = json.loads(plane.kubectl("get", "deployments", "-A", "-o", "json"))["items"]
    pods = {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in found}
    (image,) = {each["image"] for pod in pods.values() for each in pod["containers"]}
    assert machine.record.read_text() == asked.replace("IMAGE", image)
    metadata = {"name": "shard", "namespace": "checksum-controller"}
    spec = pods["checksum-controller"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    plane.apply(json.dumps(pod))
    typed = [line for line in done.stdout.splitlines() if line.startswith("  kubectl")]
    look, kill, look_again = (machine.run(line.replace(" --watch", "")) for line in typed)
    assert (look.stdout.count("secret/demo-"), kill.returncode) == (12, 0), (look, kill)
    assert look_again.stdout.count("demo-") == 12, look_again


def test_without_kind_and_k3d_it_says_where_they_are(tmp_path: Path, plane: ControlPlane) -> None:
    done = Machine(tmp_path, plane, "docker").run(str(SCRIPT))

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: no kind: see https://kind.sigs.k8s.io")
