"""Facts about `sharder.core.preview.dump`: what a file may hold, and the plan that follows."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from sharder.core.api.meta import Json
from sharder.core.api.ring import StrategyName
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import ConfigError
from sharder.core.movement.step import Action
from sharder.core.names import ShardName
from sharder.core.placement.hash_ring import HashRing
from sharder.core.preview.dump import decode_dump, plan_dump
from sharder.core.preview.report import PlanReport
from sharder.core.preview.what_if import WhatIf

RENEWED = "2026-03-01T12:00:00.000000Z"
RING: Mapping[str, Json] = {
    "apiVersion": "sharding.timebertt.dev/v1alpha1",
    "kind": "ControllerRing",
    "metadata": {"name": "demo", "creationTimestamp": None},
    "spec": {
        "resources": [
            {"group": "", "resource": "secrets", "controlledResources": [{"resource": "pods"}]},
            {"group": "farm.example", "resource": "oxen", "controlledResources": None},
        ]
    },
    "status": {},
}


def lease(name: str, *, ring: str = "demo", renewed: str | None = RENEWED) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"alpha.sharding.timebertt.dev/controllerring": ring},
        },
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": 15,
            "acquireTime": RENEWED,
            "renewTime": renewed,
        },
    }


def thing(
    kind: str, name: str, *, version: str = "v1", namespace: str = "default", **metadata: Json
) -> Mapping[str, Json]:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, **metadata},
    }


def stream(*documents: Json) -> bytes:
    return b"\n".join(map(msgspec.json.encode, documents))


def plan(*documents: Json) -> PlanReport:
    dump = decode_dump(stream(RING, *documents))
    everything = LabelSelector()
    return plan_dump(dump, dump.newest_renewal(), everything)


def planned(*documents: Json) -> dict[str, str | None]:
    return {a.object: a.to for a in plan(*documents).assignments}


def test_objects_of_the_ring_go_to_its_shards() -> None:
    assert planned(lease("a"), thing("Secret", "s"), thing("ConfigMap", "c")) == {
        "/Secret/default/s": "a"
    }


def test_leases_of_other_rings_are_no_shards() -> None:
    assert planned(lease("a"), lease("b", ring="other"), thing("Secret", "s")) == {
        "/Secret/default/s": "a"
    }


def test_lists_are_taken_apart() -> None:
    inner: Json = {"kind": "List", "items": [thing("Secret", "t")]}
    everything: Json = {"kind": "List", "items": [thing("Secret", "s"), inner]}

    assert list(planned(lease("a"), everything)) == ["/Secret/default/s", "/Secret/default/t"]


def test_items_of_a_typed_list_need_not_say_their_kind() -> None:
    secrets: Json = {
        "apiVersion": "v1",
        "kind": "SecretList",
        "items": [{"metadata": {"name": "s"}}],
    }
    empty: Json = {"apiVersion": "v1", "kind": "PodList", "items": None}

    assert list(planned(secrets, empty)) == ["/Secret//s"]


def test_an_object_whose_kind_ends_in_list_is_no_list() -> None:
    decoded = decode_dump(stream(RING, thing("AllowList", "l")))

    assert ("", "allowlists") in [resource for resource, _ in decoded.objects]


def test_the_servers_own_plural_overrides_the_usual_one() -> None:
    served: Json = {
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "groupVersion": "farm.example/v1",
        "resources": [
            {"name": "oxen", "kind": "Ox", "verbs": ["list"]},
            {"name": "oxen/scale", "kind": "Ox", "group": "autoscaling"},
        ],
    }
    ox = thing("Ox", "bill", version="farm.example/v1")

    assert planned(lease("a"), ox) == {}
    assert planned(lease("a"), ox, served) == {"farm.example/Ox/default/bill": "a"}


def test_controlled_objects_follow_their_owner_in_any_order_of_the_file() -> None:
    wanted = HashRing([ShardName("a"), ShardName("b")]).owner("/Secret/default/s")
    present = "a" if wanted == "b" else "b"
    reference: Json = {"apiVersion": "v1", "kind": "Secret", "name": "s", "controller": True}
    pod = thing("Pod", "p", ownerReferences=[reference])
    secret = thing("Secret", "s", labels={"shard.alpha.sharding.timebertt.dev/demo": present})

    assert planned(pod, lease("a"), lease("b"), secret) == {
        "/Pod/default/p": wanted,
        "/Secret/default/s": wanted,
    }


def test_without_namespaces_every_namespace_is_selected() -> None:
    assert list(planned(thing("Secret", "s", namespace="any"))) == ["/Secret/any/s"]


def test_with_namespaces_the_selector_decides() -> None:
    selector = {"matchLabels": {"team": "x"}}
    selective: Json = {
        "apiVersion": "sharding.timebertt.dev/v1alpha1",
        "kind": "ControllerRing",
        "metadata": {"name": "demo"},
        "spec": {"resources": [{"resource": "secrets"}], "namespaceSelector": selector},
    }
    spaces = [
        thing("Namespace", "in", namespace="", labels={"team": "x"}),
        thing("Namespace", "out", namespace=""),
    ]
    secrets = [thing("Secret", "s", namespace=name) for name in ("in", "out", "unknown", "")]
    dump = decode_dump(stream(selective, *spaces, *secrets))

    report = plan_dump(dump, datetime.now(UTC), LabelSelector())

    assert [a.object for a in report.assignments] == ["/Secret//s", "/Secret/in/s"]


def test_with_namespaces_and_a_ring_that_does_not_say_the_default_decides() -> None:
    data = stream(RING, thing("Namespace", "n", namespace=""), thing("Secret", "s", namespace="n"))
    nothing = LabelSelector(match_labels={"no": "such"})

    assert plan_dump(decode_dump(data), datetime.now(UTC), nothing).assignments == ()


def test_states_are_judged_at_the_newest_renewal_in_the_file() -> None:
    report = plan(lease("a"), lease("b", renewed="2026-03-01T12:00:16Z"))

    assert [(shard.name, shard.state) for shard in report.shards] == [
        ("a", "late"),
        ("b", "ready"),
    ]


def test_without_any_renewal_the_moment_does_not_matter() -> None:
    dump = decode_dump(stream(RING, lease("a", renewed=None), thing("Secret", "s")))

    then, much_later = (
        plan_dump(dump, dump.newest_renewal() + timedelta(days=days), LabelSelector())
        for days in (0, 20_000)
    )

    assert then == much_later


def test_a_shard_whose_lease_has_no_times_is_leaving() -> None:
    report = plan(lease("a", renewed=None), thing("Secret", "s"))

    assert [shard.state for shard in report.shards] == ["leaving"]
    assert report.unassigned == ("/Secret/default/s",)


def test_an_object_that_stands_there_twice_counts_once_as_the_last_one() -> None:
    owned = {"shard.alpha.sharding.timebertt.dev/demo": "a"}

    report = plan(lease("a"), lease("a"), thing("Secret", "s"), thing("Secret", "s", labels=owned))

    assert [a.action for a in report.assignments] == [Action.KEEP]
    assert len(report.shards) == 1


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        ([], "exactly one ControllerRing, found: none"),
        ([RING, RING], "exactly one ControllerRing, found: demo, demo"),
        ([RING, {"metadata": {"name": "x"}}], "an object in the dump has no kind"),
        ([RING, "text"], "a dump must contain only Kubernetes objects, found: 'text'"),
        ([RING, {"kind": "Secret"}], "a Secret in the dump has no name"),
        ([RING, {"kind": "Secret", "metadata": 3}], "Secret without metadata: Expected"),
        ([RING, {"kind": "Secret", "metadata": {"name": 3}}], "Secret 3: Expected `str`"),
        ([RING, {"kind": "APIResourceList"}], "APIResourceList: Object missing required"),
    ],
)
def test_a_file_that_cannot_be_planned_from_says_why(documents: list[Json], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        decode_dump(b"\n---\n".join(map(msgspec.json.encode, documents)))


def test_empty_documents_do_not_matter() -> None:
    data = b"---\n---\n" + msgspec.json.encode(RING) + b"\n---\n"

    assert decode_dump(data).ring.name == "demo"


def test_a_dump_is_planned_with_what_is_supposed() -> None:
    dump = decode_dump(stream(RING, lease("a"), *(thing("Secret", f"s{i}") for i in range(6))))
    what_if = WhatIf(strategy=StrategyName.BOUNDED_LOAD, add=1, remove=("a",))

    report = plan_dump(dump, dump.newest_renewal(), LabelSelector(), what_if=what_if)

    assert report.strategy == "BoundedLoad"
    assert [(shard.name, shard.state, shard.objects) for shard in report.shards] == [
        ("a", "left", 0),
        ("demo-new-1", "ready", 6),
    ]


def test_an_installed_strategy_decides_offline_too() -> None:
    placement = {"strategy": "Custom", "custom": "last"}
    custom: Json = {
        **RING,
        "spec": {"resources": [{"resource": "secrets"}], "placement": placement},
    }
    dump = decode_dump(stream(custom, lease("a"), lease("b"), thing("Secret", "s")))

    report = plan_dump(
        dump,
        dump.newest_renewal(),
        LabelSelector(),
        custom={"last": lambda _demand, shards, _counts: shards[-1].name},
    )

    assert [assignment.to for assignment in report.assignments] == ["b"]


def test_a_plan_of_a_file_shows_what_moves_for_balance() -> None:
    spec = RING["spec"]
    assert isinstance(spec, dict)
    rebalance = {"rebalance": {"strategy": "EvenLoad"}}
    ring = {**RING, "spec": {**spec, "placement": {"strategy": "LeastLoaded"}, **rebalance}}
    labels = {"shard.alpha.sharding.timebertt.dev/demo": "a"}
    secrets = [thing("Secret", name, labels=labels) for name in ("one", "two")]
    dump = decode_dump(stream(ring, lease("a"), lease("b"), *secrets))

    report = plan_dump(dump, dump.newest_renewal(), LabelSelector())

    assert [(a.object, a.action, a.to) for a in report.assignments] == [
        ("/Secret/default/one", Action.DRAIN, "b"),
        ("/Secret/default/two", Action.KEEP, "a"),
    ]
    assert report.rebalance is not None
    assert report.rebalance.why.startswith("1 move: ")


def test_without_namespaces_in_the_file_those_of_the_system_are_not_selected() -> None:
    objects = [thing("Secret", "s", namespace=each) for each in ("kube-system", "sharding-system")]

    assert planned(lease("a"), *objects) == {}
