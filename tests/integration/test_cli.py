"""Every command of docs/cli.md on a real cluster, as a process, as its reader types it."""

import json
import os
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from hack import binaries
from hack.control_plane import ControlPlane
from sharder.api.lease import format_time
from sharder.cli.reports import Explanation, RingsReport, ShardsReport
from sharder.names import RING_LABEL, RingName, ShardName, owner_label
from sharder.preview.planning import Action
from sharder.preview.report import PlanReport
from sharder.ring import ConsistentHash
from sharder.tls import Policy, new_bundle
from tests.support.documents import ROOT, blocks

CLI = Path("docs/cli.md")
CRD = ROOT / "charts/sharder/templates/crd.yaml"
SHARDER = Path(sys.executable).with_name("sharder")
TYPED = [
    line
    for block in blocks("sh")
    if block.document == CLI
    for line in block.text.splitlines()
    if not line.startswith("sharder run")  # tests/e2e has the service
]
SHARDS = (ShardName("shard-a"), ShardName("shard-b"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ring:
    """A ring of two shards, in a namespace of its own, with the Secret `my-secret` on shard-a."""

    name: RingName
    control_plane: ControlPlane
    folder: Path

    def shell(
        self, command: str, kubeconfig: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run what the documents say, with this ring in the place of theirs."""
        programs = [str(binaries.control_plane()), str(SHARDER.parent), os.environ["PATH"]]
        return subprocess.run(
            ["bash", "-c", self.told(command)],
            env={
                **os.environ,
                "PATH": os.pathsep.join(programs),
                "KUBECONFIG": str(kubeconfig or self.control_plane.admin_kubeconfig),
                "KUBECACHEDIR": str(self.folder / "kubectl"),
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )

    def told(self, command: str) -> str:
        told = command.replace("my-ring", self.name).replace("default/", f"{self.name}/")
        return re.sub("sharder certs( rotate)?", rf"\g<0> --namespace {self.name}", told)

    def read(self, command: str) -> bytes:
        done = self.shell(f"{command} -o json")
        assert done.returncode == 0, done.stderr
        return done.stdout.encode()


@pytest.fixture(scope="module")
def ring(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Ring:
    control_plane.apply(CRD)
    control_plane.kubectl("wait", "--for=condition=Established", "-f", str(CRD))
    name = RingName(f"cli-{uuid.uuid4().hex[:8]}")
    selector = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    documents = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        {
            "apiVersion": "sharding.timebertt.dev/v1alpha1",
            "kind": "ControllerRing",
            "metadata": {"name": name},
            "spec": {"resources": [{"resource": "secrets"}], "namespaceSelector": selector},
        },
        *(lease(name, shard) for shard in SHARDS),
        secret(name, "my-secret", {owner_label(name): SHARDS[0]}),
        *(secret(name, f"secret-{index}", {}) for index in range(19)),
        certificates(name),
    ]
    control_plane.apply("\n---\n".join(map(json.dumps, documents)))
    return Ring(
        name=name, control_plane=control_plane, folder=tmp_path_factory.mktemp("documents")
    )


def lease(ring: RingName, shard: ShardName) -> dict[str, object]:
    now = format_time(datetime.now(UTC))
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": shard, "namespace": ring, "labels": {RING_LABEL: ring}},
        "spec": {
            "holderIdentity": shard,
            "leaseDurationSeconds": 3600,
            "acquireTime": now,
            "renewTime": now,
        },
    }


def secret(ring: RingName, name: str, labels: dict[str, str]) -> dict[str, object]:
    metadata = {"name": name, "namespace": ring, "labels": labels}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


def certificates(ring: RingName) -> dict[str, object]:
    policy = Policy(
        names=("sharder",), validity=timedelta(days=90), rotate_before=timedelta(days=30)
    )
    data = new_bundle(policy, datetime.now(UTC)).to_secret_data()
    return {**secret(ring, "sharder-certificates", {}), "data": data}


def test_every_command_of_the_document_does_what_it_is_for(ring: Ring) -> None:
    assert len(TYPED) > 10

    for command in TYPED:
        done = ring.shell(command)
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout or ">" in command, command


def test_rings_count_their_objects(ring: Ring) -> None:
    report = msgspec.json.decode(ring.read("sharder rings"), type=RingsReport)

    (row,) = (row for row in report.rings if row.name == ring.name)
    assert (row.shards, row.available_shards, row.objects, row.unassigned) == (2, 2, 21, 20)
    assert row.problem is None


def test_shards_count_their_objects(ring: Ring) -> None:
    report = msgspec.json.decode(ring.read("sharder shards my-ring"), type=ShardsReport)

    rows = [(row.name, row.state, row.available, row.objects) for row in report.shards]
    assert rows == [(SHARDS[0], "ready", True, 1), (SHARDS[1], "ready", True, 0)]
    assert (report.objects, report.unassigned) == (21, 20)


def test_an_object_is_explained(ring: Ring) -> None:
    answer = ring.read("sharder explain my-ring secrets default/my-secret")

    told = msgspec.json.decode(answer, type=Explanation)
    assert told.key == f"/Secret/{ring.name}/my-secret"
    assert (told.owner, told.owner_state) == (SHARDS[0], "ready")
    assert told.wanted == ConsistentHash(SHARDS).owner(told.key)
    assert told.action is (Action.KEEP if told.wanted == SHARDS[0] else Action.DRAIN)
    assert told.placement is not None
    assert [shard.name for shard in told.placement.shards] == list(SHARDS)


def test_a_plan_follows_the_hash_and_changes_nothing(ring: Ring) -> None:
    before = ring.shell(f"kubectl get secrets -n {ring.name} -o json").stdout

    report = msgspec.json.decode(ring.read("sharder plan my-ring"), type=PlanReport)

    hashing = ConsistentHash(SHARDS)
    assert {a.object: a.to for a in report.assignments} == {
        a.object: hashing.owner(a.object) for a in report.assignments
    }
    assert report.summary.objects == 21
    assert ring.shell(f"kubectl get secrets -n {ring.name} -o json").stdout == before


def test_a_plan_shows_what_a_strategy_that_sticks_would_do(ring: Ring) -> None:
    command = "sharder plan my-ring --strategy boundedload --add 1 --remove shard-b"

    report = msgspec.json.decode(ring.read(command), type=PlanReport)

    loads = {shard.name: shard.load for shard in report.shards}
    assert loads.keys() == {f"{ring.name}-new-1", *SHARDS}
    assert loads[SHARDS[1]] == {"objects": 0}
    assert sorted(shard.objects for shard in report.shards) == [0, 10, 11]
    assert report.unassigned == ()


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


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("sharder plan no-such-ring", "no ControllerRing no-such-ring, give one of those there"),
        ("sharder explain my-ring pods default/x", "has no resource pods, give one of secrets"),
        ("sharder explain my-ring secrets default/x", "in secrets, check the name"),
        ("sharder certs --secret none", "there is no Secret"),
        ("sharder certs rotate --secret none", "there is no Secret"),
        ("sharder rings --context none", "cannot use kubeconfig"),
        ("sharder rings --kubeconfig /none", "no kubeconfig at /none"),
    ],
)
def test_a_failure_is_told_in_one_line(ring: Ring, command: str, message: str) -> None:
    done = ring.shell(command)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("sharder: ")
    assert message in done.stderr


@pytest.mark.parametrize("command", ["rings", "certs", "certs rotate"])
def test_a_missing_right_is_told_in_one_line(ring: Ring, command: str) -> None:
    nobody = ring.control_plane.kubeconfig(f"nobody-{ring.name}")

    done = ring.shell(f"sharder {command}", nobody)

    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "grant it in a Role or ClusterRole" in done.stderr


def test_a_cluster_that_does_not_answer_is_told_in_one_line(ring: Ring) -> None:
    kubeconfig = ring.folder / "silent"
    text = ring.control_plane.admin_kubeconfig.read_text()
    kubeconfig.write_text(re.sub(r"https://[\d.:]+", "https://127.0.0.1:1", text))

    done = ring.shell("sharder rings", kubeconfig)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
