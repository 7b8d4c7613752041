"""Every command of the documents on a real cluster, as a process, as its reader types it."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hack.control_plane import ControlPlane
from sharder.core.names import RingName
from sharder.tls.rotation import Policy, new_bundle
from tests.support.documented_ring import Manifest, Ring, install, secret
from tests.support.documents import blocks, commands, read

TYPED = [
    command.partition(" | jq ")[0]  # not everyone has jq
    for page in ("docs/commands.md", "docs/cli.md")
    for command in commands(read(Path(page)))
    # tests/e2e has the service, test_check.py and test_console_command.py what needs one
    if not command.startswith(("sharder run", "sharder check", "sharder console"))
]


@pytest.fixture(scope="module")
def ring(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Ring:
    folder = tmp_path_factory.mktemp("documents")
    return install(control_plane, folder, prefix="cli", more=others)


def others(name: RingName) -> list[Manifest]:
    secrets = [secret(name, f"secret-{index}", {}) for index in range(19)]
    return [*secrets, certificates(name)]


def certificates(ring: RingName) -> Manifest:
    policy = Policy(
        names=("sharder",), validity=timedelta(days=90), rotate_before=timedelta(days=30)
    )
    data = new_bundle(policy, datetime.now(UTC)).to_secret_data()
    return {**secret(ring, "sharder-certificates", {}), "data": data}


@pytest.fixture(scope="module")
def on_call(ring: Ring) -> Path:
    """Return the kubeconfig of a user with the rights that docs/security.md lists for them."""
    (rights,) = (block.text for block in blocks("yaml") if "sharder-on-call" in block.text)
    ring.control_plane.apply(rights.replace("my-controller", ring.name))
    kubeconfig = ring.control_plane.kubeconfig("alice", group="on-call")
    asks = f"until kubectl auth can-i patch leases -n {ring.name}; do :; done"
    assert ring.shell(f"timeout 60 bash -c '{asks}'", kubeconfig).returncode == 0
    return kubeconfig


def test_every_command_of_the_document_succeeds(ring: Ring, on_call: Path) -> None:
    assert len(TYPED) > 10

    for command in TYPED:
        done = ring.shell(command, None if "sharder cleanup " in command else on_call)
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout or ">" in command, command


def test_those_on_call_may_clean_up_the_resources_of_their_rings(
    ring: Ring, on_call: Path
) -> None:
    done = ring.shell("sharder cleanup old-ring --resource secrets", on_call)

    assert (done.returncode, "warning" in done.stderr) == (0, False)


def test_a_plan_from_a_dump_of_the_cluster_is_the_same(ring: Ring) -> None:
    live = ring.read("sharder plan my-ring")
    dumped = f"kubectl get controllerrings,leases,secrets,namespaces -A -o json > {ring.name}.json"
    done = ring.shell(dumped)

    # Other rings of this server have to be left out, for a dump has one.
    file = ring.folder / f"{ring.name}.json"
    items = [
        item
        for item in json.loads(file.read_bytes())["items"]
        if item["kind"] != "ControllerRing" or item["metadata"]["name"] == ring.name
    ]
    file.write_text(json.dumps({"kind": "List", "items": items}))

    assert done.returncode == 0
    assert ring.read(f"sharder plan --file {file}") == live


def test_a_plan_from_what_the_sharder_dumps_is_the_same_and_holds_no_data(ring: Ring) -> None:
    live = ring.read("sharder plan my-ring")
    file = ring.folder / f"{ring.name}-dumped.json"

    done = ring.shell(f"sharder dump my-ring > {file}")

    assert done.returncode == 0
    assert b'"data"' not in file.read_bytes()
    assert ring.read(f"sharder plan --file {file}") == live


@pytest.mark.parametrize("command", ["rings", "certs", "certs --rotate serving"])
def test_a_missing_right_is_reported_in_one_line(ring: Ring, command: str) -> None:
    no_rights = ring.control_plane.kubeconfig(f"no-rights-{ring.name}")

    done = ring.shell(f"sharder {command}", no_rights)

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "grant it in a Role or ClusterRole" in done.stderr


def test_a_cluster_that_does_not_answer_is_reported_in_one_line(ring: Ring) -> None:
    kubeconfig = ring.folder / "silent"
    text = ring.control_plane.admin_kubeconfig.read_text()
    kubeconfig.write_text(re.sub(r"https://[\d.:]+", "https://127.0.0.1:1", text))

    done = ring.shell("sharder rings", kubeconfig)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
