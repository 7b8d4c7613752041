"""A sharder that cannot work ends with one line that says what to do.

All of them are started side by side, for most try for a minute before they give up.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from hack.control_plane import ControlPlane
from hack.playground import CRD

PROGRAM = Path(sys.executable).parent / "sharder"
SYSTEM = "refused-starts"
RINGS = {"apiGroups": ["sharding.timebertt.dev"], "resources": ["controllerrings"]}
LEASES = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
NAMESPACES = {"apiGroups": [""], "resources": ["namespaces"]}
SECRETS = {"apiGroups": [""], "resources": ["secrets"]}


@pytest.fixture(scope="module")
def endings(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, subprocess.CompletedProcess[str]]]:
    directory = tmp_path_factory.mktemp("refused")
    with ControlPlane() as without_crd:
        for plane in (control_plane, without_crd):
            plane.apply(_namespace())
        control_plane.apply(CRD)
        control_plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
        kubeconfigs = {
            "no API server": _unreachable(directory),
            "no CRD": _user(without_crd, "no-crd", RINGS, LEASES, NAMESPACES, SECRETS),
            "no right on rings": _user(control_plane, "no-rings", LEASES, NAMESPACES, SECRETS),
            "no right on Leases": _user(control_plane, "no-leases", RINGS, NAMESPACES, SECRETS),
            "no right on the Secret": _user(control_plane, "no-secret", RINGS, LEASES, NAMESPACES),
            "no kubeconfig": directory / "absent",
            "broken kubeconfig": _written(directory / "broken", "clusters: 7"),
        }
        config = _written(directory / "good.yaml", _config())
        commands = {name: (config, kubeconfig) for name, kubeconfig in kubeconfigs.items()}
        bad = {**_settings(), "leaderElection": {"leaseDuration": "soon"}}
        commands["bad config"] = (
            _written(directory / "bad.yaml", yaml.safe_dump(bad)),
            control_plane.admin_kubeconfig,
        )
        with ThreadPoolExecutor(max_workers=len(commands)) as pool:
            yield dict(zip(commands, pool.map(_end, commands.values()), strict=True))


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("no API server", ("127.0.0.1:1", "check the server in the kubeconfig")),
        ("no CRD", ("controllerrings", "CRD is installed")),
        ("no right on rings", ("cannot list", "controllerrings", "right to list and watch")),
        ("no right on Leases", ("cannot list", "leases", "right to list and watch")),
        ("no right on the Secret", ("secrets", "grant the right to the sharder's ServiceAccount")),
        ("no kubeconfig", ("absent", "set its path")),
        ("broken kubeconfig", ("broken", "fix it")),
        ("bad config", ("leaderElection.leaseDuration", "'soon'")),
    ],
)
def test_a_start_that_cannot_succeed_ends_with_one_line_of_advice(
    endings: Mapping[str, subprocess.CompletedProcess[str]], case: str, says: tuple[str, ...]
) -> None:
    ended = endings[case]
    lines = [line for line in ended.stderr.splitlines() if not line.startswith("{")]

    assert ended.returncode == 1
    assert [line.partition(" ")[0] for line in lines] == ["sharder:"], ended.stderr
    assert all(part in lines[0] for part in says), lines[0]


def _end(command: tuple[Path, Path]) -> subprocess.CompletedProcess[str]:
    config, kubeconfig = command
    return subprocess.run(
        [PROGRAM, "run", "--config", config, "--kubeconfig", kubeconfig],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def _config() -> str:
    return yaml.safe_dump(_settings())


def _settings() -> dict[str, object]:
    return {
        "apiVersion": "config.sharding.timebertt.dev/v1alpha1",
        "kind": "SharderConfig",
        "health": {"bindAddress": "0"},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"resourceNamespace": SYSTEM},
        "webhook": {"server": {"bindAddress": "127.0.0.1", "port": 0}},
    }


def _user(plane: ControlPlane, name: str, *rights: Mapping[str, list[str]]) -> Path:
    """Return the kubeconfig of a user who has all rights on some resources and no other."""
    rules = [{**right, "verbs": ["*"]} for right in rights]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": rules}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": name,
        },
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name},
        ],
    }
    for manifest in (role, binding):
        plane.apply(json.dumps({**manifest, "metadata": {"name": name}}))
    return plane.kubeconfig(name)


def _namespace() -> str:
    return json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})


def _unreachable(directory: Path) -> Path:
    return _written(
        directory / "unreachable",
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        ),
    )


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
