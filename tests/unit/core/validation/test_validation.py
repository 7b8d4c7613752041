"""Facts about what is refused of a ring; `refusals.txt` beside this file has the texts."""

import os
from pathlib import Path

import msgspec
import pytest
import yaml

from sharder.core.api.ring import ControllerRing, StrategyName
from sharder.core.names import GroupResource
from sharder.core.ring.build import EXCLUDED_RESOURCES, reason_against
from sharder.core.validation import MAX_REFUSALS, MAX_RESOURCES, Fault, refusals
from tests.support.manifests import ring_specs

TEXTS = Path(__file__).parent / "refusals.txt"
FOLLOWING = [StrategyName.CONSISTENT_HASH, StrategyName.RENDEZVOUS]
STICKING = [name for name in StrategyName if name not in FOLLOWING]
EXCLUDED_IN_GROUPS = [
    GroupResource("coordination.k8s.io", "leases"),
    GroupResource("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    GroupResource("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    *(
        GroupResource("rbac.authorization.k8s.io", kind)
        for kind in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
    ),
    GroupResource("sharding.timebertt.dev", "controllerrings"),
    GroupResource("authentication.k8s.io", "tokenreviews"),
    GroupResource("authorization.k8s.io", "subjectaccessreviews"),
]

LABELS = "{key: a, operator: In, values: ['', x]}, {key: a, operator: Exists}"
ACCEPTED = {
    "no resources": "{}",
    "one resource controlled by two": "resources: [{resource: secrets, controlledResources: "
    "[{resource: pods}]}, {resource: configmaps, controlledResources: [{resource: pods}]}]",
    "one name in two groups": "resources: [{resource: jobs}, {group: batch, resource: jobs}]",
    "namespaces": "resources: [{resource: namespaces}]",
    "a custom resource named events": "resources: [{group: e.example.com, resource: events}]",
    "selectors": f"{{namespaceSelector: &s {{matchLabels: {{a: '', example.com/b: c}}, "
    f"matchExpressions: [{LABELS}, {{key: a, operator: DoesNotExist}}]}}, objectSelector: *s}}",
    "an empty groupBy": "placement: {strategy: ConsistentHash, groupBy: {owner: false}}",
    "groups for Spread": "placement: {strategy: Spread, groupBy: {labels: [app], owner: true}}",
    "zones": "placement: {strategy: LeastLoaded, antiAffinity: Required, minZones: 100}",
    "Auto": "{placement: {strategy: Spread}, rebalance: {threshold: Auto}}",
    **{
        f"the number {text}": "{placement: {strategy: Spread}, rebalance: "
        f"{{threshold: '{text}', minGain: '{text}', maxMovesPerInterval: 1}}}}"
        for text in ("0", "0.15", "00.50", "1" * 20)
    },
    **{
        f"every {text}": f"{{placement: {{strategy: Spread}}, rebalance: {{interval: {text}}}}}"
        for text in ("1s", "1000ms", "1h30m", "0.5h")
    },
    "resources to balance": "{placement: {strategy: Spread}, rebalance: "
    "{resources: [cpu, example.com/gpu, objects]}}",
    "no limits": "movement: {maxConcurrentDrains: 0, maxMovesPerMinute: 0, drainTimeout: 0s}",
    "limits": "movement: {maxConcurrentDrains: 9, maxMovesPerMinute: 9, drainTimeout: 1ms}",
}

NUMBERS = (
    "", "auto", "-1", "+1", "0,15", "1e3", ".5", "5.", "inf", "nan", "1\n", "٣", "1_0", "1" * 21,
)  # fmt: skip
INTERVALS = ("", "0", "0s", "999ms", "-5m", "5", "5 m", "1d", "9999999999h", "1s" * 11)
DRAINS = ("", "-1s", "10", "never", "9999999999h")


def ring_with(spec: object) -> ControllerRing:
    return msgspec.convert({"metadata": {"name": "demo"}, "spec": spec}, ControllerRing)


def read(text: str) -> ControllerRing:
    return ring_with(yaml.safe_load(text))


@pytest.mark.parametrize("name", ring_specs())
def test_rings_written_for_the_reference_are_accepted(name: str) -> None:
    assert refusals(ring_with(ring_specs()[name]), ()) == ()


@pytest.mark.parametrize("case", ACCEPTED)
def test_a_ring_that_can_work_is_accepted(case: str) -> None:
    assert refusals(read(ACCEPTED[case]), ("mine",)) == ()


@pytest.mark.parametrize("strategy", StrategyName)
def test_every_strategy_is_accepted_with_what_it_can_do(strategy: StrategyName) -> None:
    custom = {"custom": "mine"} if strategy is StrategyName.CUSTOM else {}
    ceilings = {"perShardCapacity": 1, "poolCapacity": 1} if strategy in STICKING else {}
    spec = {
        "placement": {"strategy": strategy, **custom, **ceilings},
        "movement": {"paused": True},
        "rebalance": {"strategy": "EvenLoad" if strategy in STICKING else "None"},
        "resources": [
            {"resource": "a", "hashKey": "Namespace" if strategy in FOLLOWING else "Object"}
        ],
    }

    assert refusals(ring_with(spec), ("mine",)) == ()


def test_each_ring_of_the_file_is_refused_as_it_says() -> None:
    written = TEXTS.read_text()
    rings = [line for line in written.splitlines() if not line.startswith(" ")]

    said = ""
    for text in rings:
        said += f"{text}\n" + "".join(f"  {each}\n" for each in refusals(read(text), ("b", "a")))

    if os.environ.get("REWRITE_GOLDEN"):
        TEXTS.write_text(said)
    assert said == written
    assert [str(each) for each in refusals(read("placement: {strategy: Custom}"), ())] == [
        "spec.placement.custom: Required value: the strategy Custom needs the name of an installed"
        " entry point: none is installed"
    ]


@pytest.mark.parametrize(
    ("group", "fields", "texts"),
    [
        ("rebalance", ("threshold", "minGain"), NUMBERS),
        ("rebalance", ("minGain",), ("Auto",)),
        ("rebalance", ("interval",), INTERVALS),
        ("movement", ("drainTimeout",), DRAINS),
    ],
)
def test_a_number_or_duration_that_is_none_is_refused(
    group: str, fields: tuple[str, ...], texts: tuple[str, ...]
) -> None:
    for text in texts:
        found = refusals(ring_with({group: dict.fromkeys(fields, text)}), ())

        assert [each.field for each in found] == [f"spec.{group}.{field}" for field in fields]
        assert all(str(each).count("Invalid value") == 1 for each in found)


def test_a_long_value_is_cut() -> None:
    labels = {"matchLabels": {"a": "x" * 9999}}

    (refusal,) = refusals(ring_with({"objectSelector": labels}), ())

    assert len(str(refusal)) < 400


@pytest.mark.parametrize("resource", [*EXCLUDED_RESOURCES, *EXCLUDED_IN_GROUPS], ids=str)
def test_what_is_never_sharded_is_refused_with_the_reason(resource: GroupResource) -> None:
    group, name = resource

    (refusal,) = refusals(ring_with({"resources": [{"group": group, "resource": name}]}), ())

    assert (refusal.field, refusal.fault) == ("spec.resources[0]", Fault.FORBIDDEN)
    assert refusal.fault.cause == "FieldValueForbidden"
    assert str(reason_against(resource)) in refusal.advice


def test_no_more_is_reported_at_a_time_than_can_be_read() -> None:
    resources = [{"resource": "a"}] * MAX_RESOURCES

    assert len(refusals(ring_with({"resources": resources}), ())) == MAX_REFUSALS


@pytest.mark.parametrize("count", [MAX_RESOURCES, MAX_RESOURCES + 1])
def test_a_ring_has_at_most_a_hundred_resources_controlled_ones_included(count: int) -> None:
    controlled = [{"resource": f"c{number}"} for number in range(count - 2)]
    resources = [{"resource": "a"}, {"resource": "b", "controlledResources": controlled}]

    found = refusals(ring_with({"resources": resources}), ())

    assert [refusal.field for refusal in found] == ["spec.resources"] * (count > MAX_RESOURCES)
