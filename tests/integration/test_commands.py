"""Every command of the documents for users and operators, as typed, on a real API server.

No sharder runs: what the commands write is what counts, and shard-b has no objects to wait for.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hack.control_plane import ControlPlane
from sharder.core.api.meta import Json
from sharder.core.names import (
    CORDONED_ANNOTATION,
    EVACUATE_ANNOTATION,
    WATCHES_ANNOTATION,
    RingName,
    pin_label,
)
from sharder.proxy.inject import injected
from sharder.tls.rotation import Policy, new_bundle
from tests.support.documented_ring import SHARDS, Manifest, Ring, install, secret
from tests.support.documents import blocks, code, commands, read, section, tables

OPERATE, ALERTS, REBALANCING = (
    Path(f"docs/{name}.md") for name in ("operate", "alerts", "rebalancing")
)
TYPED = dict.fromkeys(commands(read(OPERATE) + read(ALERTS) + read(REBALANCING)))
AT_A_GLANCE = tables(section(OPERATE, "At a glance"))[0]
PAIRS = [(code(row[1])[0], code(row[2])[0]) for row in AT_A_GLANCE]
SETTING = [pair for pair in PAIRS if pair[0].split()[1] in {"pause", "cordon", "evacuate", "pin"}]
TAKING_BACK = [pair for pair in PAIRS if pair not in SETTING]
UNDOING = commands(section(OPERATE, "Undo everything"))


COMMANDS = [
    command.partition(" | jq ")[0]  # not everyone has jq
    for command in commands(read(Path("docs/commands.md")))
    # tests/e2e has the service, tests/long the proxy, and what needs a service is in test_check.py
    # and tests/unit/cli
    if not command.startswith(("sharder run", "sharder proxy", "sharder check", "sharder console"))
]


@pytest.fixture(scope="module")
def ring(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Ring:
    folder = tmp_path_factory.mktemp("documents")
    placement: Json = {"strategy": "BoundedLoad"}
    deployment = workload(RingName("my-controller"))[2]
    (folder / "deployment.yaml").write_text(json.dumps(deployment))  # JSON is YAML
    return install(control_plane, folder, prefix="commands", more=others, placement=placement)


def others(namespace: RingName) -> list[Manifest]:
    """Return what else the commands ask for."""
    secrets = [secret(namespace, f"secret-{index}", {}) for index in range(19)]
    return [*secrets, certificates(namespace), *workload(namespace)]


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


def test_every_command_of_the_document_succeeds(ring: Ring, on_call: Path) -> None:
    assert len(COMMANDS) > 10

    for command in COMMANDS:
        done = ring.shell(command, None if "sharder cleanup " in command else on_call)
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout or ">" in command, command


def test_the_server_takes_the_proxy_into_a_controller_and_out_again(ring: Ring) -> None:
    shown = "kubectl get deployment my-controller -n my-controller -o json"

    def change(options: str) -> Json:
        applied = "kubectl apply --server-side --force-conflicts -f -"
        done = ring.shell(f"{shown} | sharder inject my-ring {options} | {applied}")
        assert done.returncode == 0, done.stderr
        template: Json = json.loads(ring.shell(shown).stdout)["spec"]["template"]
        return template

    put_in = "--image sharder:0.3 --read-others secrets"
    plain, once = change("--uninject"), change(put_in)
    assert '"restartPolicy": "Always", "securityContext"' in json.dumps(once)
    assert '"--read-others", "secrets"' in json.dumps(once)
    assert change(put_in) == once
    assert change("--uninject") == plain


def test_a_proxied_controller_is_checked(control_plane: ControlPlane, tmp_path: Path) -> None:
    def more(name: RingName) -> list[Manifest]:
        account, _, deployment, *_ = workload(name)
        spec = injected(deployment, "sharder:0.3", [name])["spec"]["template"]["spec"]
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
        pod["metadata"] = {"namespace": name, "name": SHARDS[0]}
        parent = {"apiVersion": "v1", "kind": "Secret", "name": "my-secret", "uid": "1"}
        child: Manifest = {"apiVersion": "v1", "kind": "ConfigMap"}
        child["metadata"] = {
            "namespace": name,
            "name": "made",
            "ownerReferences": [{**parent, "controller": True}],
        }
        return [account, pod, child]

    ring = install(control_plane, tmp_path, prefix="proxied", more=more)
    watches = f"{WATCHES_ANNOTATION}=configmaps,nodes,unserved.example"
    annotated = ring.shell(f"kubectl annotate lease shard-a -n my-controller {watches}")
    assert annotated.returncode == 0, annotated.stderr

    done = ring.shell("sharder check my-ring -o json")

    found = [each for each in json.loads(done.stdout)["findings"] if each["check"] == "proxies"]
    assert [each["level"] for each in found] == ["WARN", "FAIL", "FAIL", "OK"], found
    said = [each["message"] for each in found]
    assert f"not ready: {ring.name}/shard-a" in said[0]
    assert "resources: [secrets], verbs: [get, list, watch, patch]}" in said[1]
    assert ("configmaps" in said[2], "nodes" in said[3]) == (True, True)


def test_those_on_call_may_clean_up_the_resources_of_their_rings(
    ring: Ring, on_call: Path
) -> None:
    done = ring.shell("sharder cleanup old-ring --resource secrets", on_call)

    assert (done.returncode, "warning" in done.stderr) == (0, False)


@pytest.mark.parametrize("command", TYPED)
def test_a_command_of_the_documents_succeeds(ring: Ring, command: str) -> None:
    done = ring.shell(command)

    assert (done.returncode, "rror" in done.stderr) == (0, False), done.stderr


def test_kubectl_writes_what_sharder_writes(ring: Ring) -> None:
    unsaid = said(ring)

    type_in(ring, [sharder for sharder, _ in SETTING])
    by_sharder = said(ring)
    type_in(ring, [kubectl for _, kubectl in TAKING_BACK])
    taken_back = said(ring)
    type_in(ring, [kubectl for _, kubectl in SETTING])
    by_kubectl = said(ring)
    type_in(ring, [sharder for sharder, _ in TAKING_BACK])

    assert by_kubectl == by_sharder != unsaid
    assert said(ring) == taken_back


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
