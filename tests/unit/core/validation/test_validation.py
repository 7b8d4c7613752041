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

MAIN, CHILD = "spec.resources", "spec.resources[0].controlledResources"
PLACED, BALANCE, MOVED = "spec.placement", "spec.rebalance", "spec.movement"
SELECTED = "spec.objectSelector"
REFUSED = {
    "main twice": (
        "resources: [{resource: a}, {resource: b}, {resource: a}]",
        {f"{MAIN}[2]": Fault.DUPLICATE},
    ),
    "controlled twice by one": (
        "resources: [{resource: a, controlledResources: [{resource: b}, {resource: b}]}]",
        {f"{CHILD}[1]": Fault.DUPLICATE},
    ),
    "main and controlled": (
        "resources: [{resource: a, controlledResources: [{resource: b}]}, {resource: b}]",
        {f"{CHILD}[0]": Fault.DUPLICATE},
    ),
    "controlled by its own kind": (
        "resources: [{resource: a, controlledResources: [{resource: a}]}]",
        {f"{CHILD}[0]": Fault.DUPLICATE},
    ),
    "never sharded, but controlled": (
        "resources: [{resource: a, controlledResources: "
        "[{group: coordination.k8s.io, resource: leases}]}]",
        {f"{CHILD}[0]": Fault.FORBIDDEN},
    ),
    **{
        f"the resource {group}/{name}": (
            f"resources: [{{group: '{group}', resource: '{name}'}}]",
            {f"{MAIN}[0]": Fault.INVALID},
        )
        for group, name in (
            ("*", "deployments"), ("apps", "*"), ("", "pods/status"), ("", ""),
            ("apps/v1", "deployments"), ("", "Secret"),
        )
    },
    "a label that is no key": (
        "objectSelector: {matchLabels: {a key: x}}",
        {f"{SELECTED}.matchLabels": Fault.INVALID},
    ),
    "a label that is no value": (
        "objectSelector: {matchLabels: {a: x y}}",
        {f"{SELECTED}.matchLabels[a]": Fault.INVALID},
    ),
    "expressions that no API server takes": (
        "objectSelector: {matchExpressions: [{key: '', operator: Exists}, "
        "{key: a, operator: Gt, values: ['1']}, {key: a, operator: In}, "
        "{key: a, operator: DoesNotExist, values: [x]}, "
        "{key: a, operator: NotIn, values: [x, '-']}]}",
        {
            f"{SELECTED}.matchExpressions[0].key": Fault.INVALID,
            f"{SELECTED}.matchExpressions[1].operator": Fault.UNSUPPORTED,
            f"{SELECTED}.matchExpressions[2].values": Fault.REQUIRED,
            f"{SELECTED}.matchExpressions[3].values": Fault.INVALID,
            f"{SELECTED}.matchExpressions[4].values[1]": Fault.INVALID,
        },
    ),
    "a namespace selector": (
        "namespaceSelector: {matchLabels: {a: x y}}",
        {"spec.namespaceSelector.matchLabels[a]": Fault.INVALID},
    ),
    "a long value": (
        f"objectSelector: {{matchLabels: {{a: {'x' * 9999}}}}}",
        {f"{SELECTED}.matchLabels[a]": Fault.INVALID},
    ),
    "hashed by namespace though it sticks": (
        "{resources: [{resource: a, hashKey: Namespace}], placement: {strategy: Spread}}",
        {f"{MAIN}[0].hashKey": Fault.INVALID},
    ),
    "Custom without a name": (
        "placement: {strategy: Custom}",
        {f"{PLACED}.custom": Fault.REQUIRED},
    ),
    "Custom by a name that is not installed": (
        "placement: {strategy: Custom, custom: theirs}",
        {f"{PLACED}.custom": Fault.UNSUPPORTED},
    ),
    "a name without Custom": (
        "placement: {strategy: Spread, custom: mine}",
        {f"{PLACED}.custom": Fault.INVALID},
    ),
    "ceilings though it follows": (
        "placement: {strategy: Rendezvous, perShardCapacity: 9, poolCapacity: 9}",
        {f"{PLACED}.perShardCapacity": Fault.INVALID, f"{PLACED}.poolCapacity": Fault.INVALID},
    ),
    "ceilings of nothing": (
        "placement: {strategy: Spread, perShardCapacity: 0, poolCapacity: 0}",
        {f"{PLACED}.perShardCapacity": Fault.INVALID, f"{PLACED}.poolCapacity": Fault.INVALID},
    ),
    "groups that the strategy does not use": (
        "placement: {strategy: BoundedLoad, groupBy: {labels: [app], owner: true}}",
        {f"{PLACED}.groupBy": Fault.INVALID},
    ),
    "too many and invalid groups": (
        "placement: {strategy: Spread, groupBy: {labels: [a, b, c, d/e/f], "
        "selectors: [{matchLabels: {'-': ''}}, {}, {}, {}]}}",
        {
            f"{PLACED}.groupBy.labels": Fault.INVALID,
            f"{PLACED}.groupBy.selectors": Fault.INVALID,
            f"{PLACED}.groupBy.labels[3]": Fault.INVALID,
            f"{PLACED}.groupBy.selectors[0].matchLabels": Fault.INVALID,
        },
    ),
    "zones without LeastLoaded": (
        "placement: {strategy: Spread, antiAffinity: Required, minZones: 2}",
        {f"{PLACED}.antiAffinity": Fault.INVALID, f"{PLACED}.minZones": Fault.INVALID},
    ),
    **{
        f"{zones} zones": (
            f"placement: {{strategy: LeastLoaded, minZones: {zones}}}",
            {f"{PLACED}.minZones": Fault.INVALID},
        )
        for zones in (0, 101, -1)
    },
    **{
        f"{balance} though it follows": (
            f"{{placement: {{strategy: ConsistentHash}}, rebalance: {{strategy: {balance}}}}}",
            {f"{BALANCE}.strategy": Fault.INVALID},
        )
        for balance in ("ResourceBalance", "EvenLoad")
    },
    **{
        f"the number {text!r}": (
            "rebalance: " + yaml.safe_dump({"threshold": text, "minGain": text}, width=9999,
                                          default_flow_style=True, allow_unicode=True),
            {f"{BALANCE}.threshold": Fault.INVALID, f"{BALANCE}.minGain": Fault.INVALID},
        )
        for text in (
            "", "auto", "-1", "+1", "0,15", "1e3", ".5", "5.", "inf", "nan", "1\n", "٣", "1_0",
            "1" * 21,
        )
    },
    "Auto as a gain": ("rebalance: {minGain: Auto}", {f"{BALANCE}.minGain": Fault.INVALID}),
    **{
        f"an interval of {text!r}": (
            f"rebalance: {{interval: '{text}'}}",
            {f"{BALANCE}.interval": Fault.INVALID},
        )
        for text in ("", "0", "0s", "999ms", "-5m", "5", "5 m", "1d", "9999999999h", "1s" * 11)
    },
    "no moves": (
        "rebalance: {maxMovesPerInterval: 0}",
        {f"{BALANCE}.maxMovesPerInterval": Fault.INVALID},
    ),
    "nothing to balance": (
        "rebalance: {resources: []}",
        {f"{BALANCE}.resources": Fault.REQUIRED},
    ),
    "too much to balance": (
        f"rebalance: {{resources: [{', '.join(f'r{number}' for number in range(11))}]}}",
        {f"{BALANCE}.resources": Fault.INVALID},
    ),
    "resources to balance": (
        "rebalance: {resources: [cpu, c p u, cpu]}",
        {f"{BALANCE}.resources[1]": Fault.INVALID, f"{BALANCE}.resources[2]": Fault.DUPLICATE},
    ),
    "limits below 0": (
        "movement: {maxConcurrentDrains: -1, maxMovesPerMinute: -1}",
        dict.fromkeys(
            [f"{MOVED}.maxConcurrentDrains", f"{MOVED}.maxMovesPerMinute"], Fault.INVALID
        ),
    ),
    **{
        f"a drain of {text!r}": (
            f"movement: {{drainTimeout: '{text}'}}",
            {f"{MOVED}.drainTimeout": Fault.INVALID},
        )
        for text in ("", "-1s", "10", "never", "9999999999h")
    },
}  # fmt: skip


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


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_where_it_stands(case: str) -> None:
    text, faults = REFUSED[case]

    assert {each.field: each.fault for each in refusals(read(text), ("mine",))} == faults


def test_every_refusal_has_its_text() -> None:
    found = [each for text, _ in REFUSED.values() for each in refusals(read(text), ("b", "a"))]
    texts = {(each.field, each.advice): str(each) for each in found[::-1]}
    said = "".join(f"{text}\n" for text in sorted(texts.values()))

    if os.environ.get("REWRITE_GOLDEN"):
        TEXTS.write_text(said)
    assert said == TEXTS.read_text()
    assert [str(each) for each in refusals(read(REFUSED["Custom without a name"][0]), ())] == [
        "spec.placement.custom: Required value: the strategy Custom needs the name of an installed"
        " entry point: none is installed"
    ]


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
