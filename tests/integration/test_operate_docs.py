"""Every command for operators, of alerts and of rebalancing on a real API server, as typed.

No sharder runs: what the commands write is what counts, and shard-b has no objects to wait for.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from hack.control_plane import ControlPlane
from sharder.core.api.meta import Json
from sharder.core.names import CORDONED_ANNOTATION, EVACUATE_ANNOTATION, RingName, pin_label
from tests.support.documented_ring import SHARDS, Manifest, Ring, install
from tests.support.documents import code, commands, read, section, tables

OPERATE, ALERTS, REBALANCING = (
    Path(f"docs/{name}.md") for name in ("operate", "alerts", "rebalancing")
)
TYPED = dict.fromkeys(commands(read(OPERATE) + read(ALERTS) + read(REBALANCING)))
AT_A_GLANCE = tables(section(OPERATE, "At a glance"))[0]
PAIRS = [(code(row[1])[0], code(row[2])[0]) for row in AT_A_GLANCE]
SETTING = [pair for pair in PAIRS if pair[0].split()[1] in {"pause", "cordon", "evacuate", "pin"}]
TAKING_BACK = [pair for pair in PAIRS if pair not in SETTING]
UNDOING = commands(section(OPERATE, "Undo everything"))


@pytest.fixture(scope="module")
def ring(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Ring:
    folder = tmp_path_factory.mktemp("documents")
    placement: Json = {"strategy": "BoundedLoad"}
    return install(control_plane, folder, prefix="operate", more=workload, placement=placement)


def workload(namespace: RingName) -> list[Manifest]:
    """Return what Kubernetes would have of a controller and its node."""
    labels: Json = {"app": "my-controller"}
    container: Json = {"name": "my-controller", "image": "registry.example.com/my-controller"}
    account: Manifest = {"apiVersion": "v1", "kind": "ServiceAccount"}
    account["metadata"] = {"name": "default", "namespace": namespace}
    deployment: Manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "my-controller", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    node: Manifest = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    pods: list[Manifest] = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": shard, "namespace": namespace, "labels": labels},
            "spec": {"containers": [container]},
        }
        for shard in SHARDS
    ]
    return [account, node, deployment, *pods]


def type_in(ring: Ring, commands: Iterable[str]) -> None:
    done = ring.shell(" && ".join(commands))
    assert done.returncode == 0, done.stderr


def said(ring: Ring) -> Json:
    """Return all that people have said of the ring, its shards and its object."""
    found: list[Json] = []
    for kind, metadata in (("leases", "annotations"), ("secret/my-secret", "labels")):
        done = ring.shell(f"kubectl get {kind} -n my-controller -o json")
        document = json.loads(done.stdout)
        found += [o["metadata"].get(metadata) for o in document.get("items", [document])]
    done = ring.shell("kubectl get controllerring my-ring -o json")
    movement = json.loads(done.stdout)["spec"].get("movement", {})
    return [*found, movement.get("paused", False)]


@pytest.mark.parametrize("command", TYPED)
def test_a_command_of_the_documents_succeeds(ring: Ring, command: str) -> None:
    done = ring.shell(command)

    assert (done.returncode, "rror" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize(("sharder", "kubectl"), PAIRS)
def test_kubectl_writes_what_sharder_writes(ring: Ring, sharder: str, kubectl: str) -> None:
    before = TAKING_BACK if (sharder, kubectl) in SETTING else SETTING
    type_in(ring, [other for _, other in before])
    unsaid = said(ring)

    type_in(ring, [sharder])
    by_sharder = said(ring)
    type_in(ring, [*(other for _, other in before), kubectl])

    assert said(ring) == by_sharder != unsaid


def test_everything_can_be_undone(ring: Ring) -> None:
    type_in(ring, [sharder for sharder, _ in SETTING])
    type_in(
        ring,
        [
            'kubectl patch controllerring my-ring --type merge -p \'{"spec":{"movement":'
            '{"maxMovesPerMinute":60},"rebalance":{"strategy":"EvenLoad"}}}\''
        ],
    )

    type_in(ring, UNDOING)

    left = json.dumps(said(ring))
    told = (CORDONED_ANNOTATION, EVACUATE_ANNOTATION, pin_label(ring.name), "true")
    assert [word for word in told if word in left] == []
    spec = json.loads(ring.shell("kubectl get controllerring my-ring -o json").stdout)["spec"]
    assert spec.get("movement", {}).get("maxMovesPerMinute", 0) == 0
    assert spec.get("rebalance", {}).get("strategy", "None") == "None"
