"""Every command of the documents on a real cluster, as a process, as its reader types it."""

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from hack.control_plane import ControlPlane
from sharder.cli.reports import Explanation, RingsReport, ShardsReport, VersionReport
from sharder.core.movement.step import Action
from sharder.core.names import RingName
from sharder.core.placement.hash_ring import HashRing
from sharder.core.preview.report import PlanReport
from sharder.tls import Policy, new_bundle
from tests.support.documented_ring import SHARDS, Manifest, Ring, install, secret
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
    kubeconfig = ring.control_plane.kubeconfig("alice", groups=["on-call"])
    asks = f"until kubectl auth can-i patch leases -n {ring.name}; do :; done"
    assert ring.shell(f"timeout 60 bash -c '{asks}'", kubeconfig).returncode == 0
    return kubeconfig


def test_every_command_of_the_document_succeeds(ring: Ring, on_call: Path) -> None:
    assert len(TYPED) > 10

    for command in TYPED:
        done = ring.shell(command, None if " cleanup " in command else on_call)
        assert (done.returncode, done.stderr) == (0, ""), command
        assert done.stdout or ">" in command, command


def test_those_on_call_may_clean_up_the_resources_of_their_rings(
    ring: Ring, on_call: Path
) -> None:
    done = ring.shell("sharder rings cleanup old-ring --resource secrets", on_call)

    assert (done.returncode, "warning" in done.stderr) == (0, False)


@pytest.mark.parametrize("words", ["secret/my-secret -n default", "Secret default/my-secret"])
def test_an_object_is_named_as_for_kubectl(ring: Ring, words: str) -> None:
    told = msgspec.json.decode(ring.read(f"sharder explain my-ring {words}"), type=Explanation)

    assert told.object == f"/Secret/{ring.name}/my-secret"


@pytest.mark.parametrize(
    ("words", "proposals"),
    [
        ("shards ''", ["my-ring"]),
        ("cordon my-ring ''", list(SHARDS)),
        ("explain my-ring ''", ["secrets"]),
        ("explain my-ring secrets default/my-s", ["default/my-secret"]),
        ("unpin -n default my-ring secret/my", ["secret/my-secret"]),
        ("pin my-ring secret/my-secret -n default shard-a", ["shard-a"]),
    ],
)
def test_names_of_the_cluster_are_proposed(ring: Ring, words: str, proposals: list[str]) -> None:
    done = ring.shell(f"kubectl_complete-shard {words}")

    assert done.stderr == ""
    named = [
        ring.name if name == "my-ring" else name.replace("default", ring.name)
        for name in proposals
    ]
    assert {*named, ":4"} <= {*done.stdout.split()}


def test_the_version_of_the_api_server_is_shown(ring: Ring) -> None:
    report = msgspec.json.decode(ring.read("sharder version"), type=VersionReport)

    assert (report.server_version or "").startswith("v1.")
    assert report.sharder_versions == ()
    assert "no Deployment in sharding-system has the label" in (report.problem or "")


def test_rings_count_their_objects(ring: Ring) -> None:
    report = msgspec.json.decode(ring.read("sharder rings"), type=RingsReport)

    (row,) = (row for row in report.rings if row.name == ring.name)
    assert (row.shards, row.available_shards, row.objects) == (2, 2, 21)
    assert (row.unassigned, row.unowned) == (20, 20)
    assert row.problem is None


def test_shards_count_their_objects(ring: Ring) -> None:
    report = msgspec.json.decode(ring.read("sharder shards my-ring"), type=ShardsReport)

    rows = [(row.name, row.state, row.available, row.objects) for row in report.shards]
    assert rows == [(SHARDS[0], "ready", True, 1), (SHARDS[1], "ready", True, 0)]
    assert (report.objects, report.unassigned, report.unowned) == (21, 20, 20)


def test_an_object_is_explained(ring: Ring) -> None:
    answer = ring.read("sharder explain my-ring secrets default/my-secret")

    told = msgspec.json.decode(answer, type=Explanation)
    assert told.key == f"/Secret/{ring.name}/my-secret"
    assert (told.owner, told.owner_state) == (SHARDS[0], "ready")
    assert told.wanted == HashRing(SHARDS).owner(told.key)
    assert told.action is (Action.KEEP if told.wanted == SHARDS[0] else Action.DRAIN)
    assert told.placement is not None
    assert [shard.name for shard in told.placement.shards] == list(SHARDS)


def test_a_plan_follows_the_hash_and_changes_nothing(ring: Ring) -> None:
    before = ring.shell(f"kubectl get secrets -n {ring.name} -o json").stdout

    report = msgspec.json.decode(ring.read("sharder plan my-ring"), type=PlanReport)

    hashing = HashRing(SHARDS)
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
    assert (report.unassigned, report.unowned) == ((), ())


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


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("sharder plan no-such-ring", "ControllerRing no-such-ring not found; existing rings"),
        ("sharder explain my-ring pods default/x", "has no resource pods; its resources: secrets"),
        (
            "sharder explain my-ring secrets default/x",
            "/x not found; check the name",
        ),
        ("sharder certs --secret none", "/none not found"),
        ("sharder certs rotate --secret none", "/none not found"),
        ("sharder rings --context none", "cannot use kubeconfig"),
        ("sharder rings --kubeconfig /none", "no kubeconfig at /none"),
    ],
)
def test_a_failure_is_reported_in_one_line(ring: Ring, command: str, message: str) -> None:
    done = ring.shell(command)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("sharder: ")
    assert message in done.stderr


@pytest.mark.parametrize("command", ["rings", "certs", "certs rotate"])
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
