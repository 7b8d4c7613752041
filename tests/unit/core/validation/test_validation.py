"""Facts about what is refused of a ring."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharder.core.api.ring import ControllerRing, RebalanceStrategy, StrategyName
from sharder.core.names import GroupResource
from sharder.core.ring.build import EXCLUDED_RESOURCES, reason_against
from sharder.core.validation import MAX_REFUSALS, MAX_RESOURCES, Fault, Refusal, refusals
from tests.support.manifests import ring_specs

SECRETS, CONFIGMAPS = {"resource": "secrets"}, {"resource": "configmaps"}
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


NAME = "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"


def ring_with(**spec: object) -> ControllerRing:
    return msgspec.convert({"metadata": {"name": "demo"}, "spec": spec}, ControllerRing)


def placed_by(strategy: str, **placement: object) -> ControllerRing:
    custom = {"custom": "mine"} if strategy == "Custom" else {}
    return ring_with(placement={"strategy": strategy, **custom, **placement})


def said(of: ControllerRing, *custom: str) -> list[str]:
    return [str(refusal) for refusal in refusals(of, custom or ("mine",))]


@pytest.mark.parametrize("name", ring_specs())
def test_rings_written_for_the_reference_are_accepted(name: str) -> None:
    assert said(ring_with(**ring_specs()[name])) == []


@pytest.mark.parametrize("strategy", StrategyName)
def test_every_strategy_is_accepted_by_itself(strategy: StrategyName) -> None:
    assert said(placed_by(strategy)) == []


def test_a_ring_without_resources_is_accepted() -> None:
    assert said(ring_with()) == []


def test_a_resource_that_is_main_twice_is_refused_where_it_stands_again() -> None:
    assert said(ring_with(resources=[SECRETS, CONFIGMAPS, SECRETS])) == [
        'spec.resources[2]: Duplicate value: "secrets": spec.resources[0] lists it already: merge'
        " this entry into that one, and remove it"
    ]


def test_a_resource_that_is_controlled_twice_by_one_is_refused() -> None:
    of = ring_with(resources=[{**SECRETS, "controlledResources": [CONFIGMAPS, CONFIGMAPS]}])

    assert said(of) == [
        'spec.resources[0].controlledResources[1]: Duplicate value: "configmaps":'
        " spec.resources[0].controlledResources[0] lists it already: remove this one"
    ]


def test_a_resource_that_is_main_and_controlled_is_refused_where_it_is_controlled() -> None:
    of = ring_with(resources=[CONFIGMAPS, {**SECRETS, "controlledResources": [CONFIGMAPS]}])

    assert said(of) == [
        'spec.resources[1].controlledResources[0]: Duplicate value: "configmaps":'
        " spec.resources[0] lists it as a main resource, and an object is placed either by itself"
        " or with what controls it: remove one of the two"
    ]


def test_a_resource_that_controls_its_own_kind_is_refused() -> None:
    of = ring_with(resources=[{**SECRETS, "controlledResources": [SECRETS]}])

    assert [r.field for r in refusals(of, ())] == ["spec.resources[0].controlledResources[0]"]


def test_two_main_resources_may_control_objects_of_one() -> None:
    pods = {"controlledResources": [{"resource": "pods"}]}
    of = ring_with(resources=[{**SECRETS, **pods}, {**CONFIGMAPS, **pods}])

    assert said(of) == []


def test_resources_of_one_name_in_two_groups_are_two() -> None:
    of = ring_with(resources=[{"resource": "jobs"}, {"group": "batch", "resource": "jobs"}])

    assert said(of) == []


@pytest.mark.parametrize("resource", [*EXCLUDED_RESOURCES, *EXCLUDED_IN_GROUPS], ids=str)
def test_what_is_never_sharded_is_refused_with_the_reason(resource: GroupResource) -> None:
    group, name = resource
    of = ring_with(resources=[SECRETS, {"group": group, "resource": name}])

    (told,) = said(of)

    reason = reason_against(resource)
    assert told == (
        f"spec.resources[1]: Forbidden: {resource} are never sharded, because {reason}: remove it"
    )


def test_what_is_never_sharded_is_refused_where_it_is_controlled_too() -> None:
    lease = {"group": "coordination.k8s.io", "resource": "leases"}
    of = ring_with(resources=[{**SECRETS, "controlledResources": [CONFIGMAPS, lease]}])

    assert said(of) == [
        "spec.resources[0].controlledResources[1]: Forbidden: leases.coordination.k8s.io are"
        " never sharded, because they make shards and elect leaders: remove it"
    ]


@pytest.mark.parametrize(
    ("group", "resource", "shown"),
    [
        ("*", "deployments", "deployments.*"),
        ("apps", "*", "*.apps"),
        ("", "pods/status", "pods/status"),
        ("", "", ""),
        ("apps/v1", "deployments", "deployments.apps/v1"),
        ("", "Secret", "Secret"),
    ],
)
def test_an_invalid_name_of_a_resource_is_refused(group: str, resource: str, shown: str) -> None:
    of = ring_with(resources=[{"group": group, "resource": resource}])

    assert said(of) == [
        f'spec.resources[0]: Invalid value: "{shown}": write a resource in lower-case plural and'
        " its group without a version; no wildcard, no subresource"
    ]


def test_namespaces_and_custom_resources_may_be_sharded() -> None:
    custom = {"group": "events.example.com", "resource": "events"}

    assert said(ring_with(resources=[{"resource": "namespaces"}, custom])) == []


@pytest.mark.parametrize("where", ["namespaceSelector", "objectSelector"])
@pytest.mark.parametrize(
    ("selector", "refused"),
    [
        (
            {"matchLabels": {"a key": "x"}},
            f'.matchLabels: Invalid value: "a key": write {NAME}, or such a name behind a DNS'
            " domain and '/': example.com/team",
        ),
        (
            {"matchLabels": {"a": "x y"}},
            f'.matchLabels[a]: Invalid value: "x y": write {NAME}, or nothing',
        ),
        (
            {"matchExpressions": [{"key": "", "operator": "Exists"}]},
            f'.matchExpressions[0].key: Invalid value: "": write {NAME}, or such a name behind a'
            " DNS domain and '/': example.com/team",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]},
            '.matchExpressions[0].operator: Unsupported value: "Gt": write one of DoesNotExist,'
            " Exists, In, NotIn",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            ".matchExpressions[0].values: Required value: In needs at least one: add it, or write"
            " the operator Exists",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "DoesNotExist", "values": ["x"]}]},
            '.matchExpressions[0].values: Invalid value: ["x"]: DoesNotExist takes no values:'
            " remove them, or write the operator NotIn",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x", "-"]}]},
            f'.matchExpressions[0].values[1]: Invalid value: "-": write {NAME}, or nothing',
        ),
    ],
)
def test_a_selector_that_the_api_server_would_not_take_is_refused(
    where: str, selector: object, refused: str
) -> None:
    assert said(ring_with(**{where: selector})) == [f"spec.{where}{refused}"]


def test_a_selector_that_the_api_server_takes_is_accepted() -> None:
    selector = {
        "matchLabels": {"a": "", "example.com/b": "c"},
        "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["", "x"]},
            {"key": "a", "operator": "Exists"},
            {"key": "a", "operator": "DoesNotExist", "values": []},
        ],
    }

    assert said(ring_with(namespaceSelector=selector, objectSelector=selector)) == []


@pytest.mark.parametrize("strategy", STICKING)
def test_objects_that_stick_cannot_be_hashed_by_namespace(strategy: StrategyName) -> None:
    of = ring_with(
        resources=[SECRETS, {**CONFIGMAPS, "hashKey": "Namespace"}],
        placement=msgspec.to_builtins(placed_by(strategy).spec.placement),
    )

    assert said(of) == [
        f'spec.resources[1].hashKey: Invalid value: "Namespace": the strategy {strategy} places'
        " each object by itself: write Object, or a strategy that follows (ConsistentHash,"
        " Rendezvous)"
    ]


@pytest.mark.parametrize("strategy", FOLLOWING)
def test_objects_that_follow_may_be_hashed_by_namespace(strategy: StrategyName) -> None:
    hashed = {**SECRETS, "hashKey": "Namespace"}

    assert said(ring_with(resources=[hashed], placement={"strategy": strategy})) == []


def test_custom_without_a_name_is_refused() -> None:
    field = "spec.placement.custom: Required value: the strategy Custom needs the name of an"
    of = ring_with(placement={"strategy": "Custom"})

    assert said(of, "b", "a") == [f"{field} installed entry point: write one of a, b"]
    assert [str(refusal) for refusal in refusals(of, ())] == [
        f"{field} installed entry point: none is installed"
    ]


def test_custom_by_a_name_that_is_not_installed_is_refused() -> None:
    assert said(placed_by("Custom"), "theirs") == [
        'spec.placement.custom: Unsupported value: "mine": write one of theirs; or,'
        " where the sharder runs, install a package with this entry point in the group"
        " sharder.placement"
    ]


def test_a_name_without_custom_is_refused() -> None:
    assert said(placed_by("Spread", custom="mine")) == [
        'spec.placement.custom: Invalid value: "mine": only the strategy Custom takes it: remove'
        " it, or write strategy: Custom"
    ]


@pytest.mark.parametrize("field", ["perShardCapacity", "poolCapacity"])
def test_ceilings_need_a_strategy_that_sticks(field: str) -> None:
    for strategy in FOLLOWING:
        assert said(placed_by(strategy, **{field: 100})) == [
            f"spec.placement.{field}: Invalid value: 100: the strategy {strategy} does not count"
            " objects: remove it, or write a strategy that sticks (BoundedLoad, Spread,"
            " LeastLoaded, Custom)"
        ]
    for strategy in STICKING:
        assert said(placed_by(strategy, **{field: 1})) == []
        assert said(placed_by(strategy, **{field: 0})) == [
            f"spec.placement.{field}: Invalid value: 0: write 1 or more, or nothing for no limit"
        ]


@pytest.mark.parametrize("strategy", StrategyName)
def test_groups_need_a_strategy_that_looks_at_them(strategy: StrategyName) -> None:
    refused = said(placed_by(strategy, groupBy={"labels": ["app"], "owner": True}))

    if strategy in {"Spread", "LeastLoaded", "Custom"}:
        assert refused == []
    else:
        assert refused == [
            'spec.placement.groupBy: Invalid value: ["labels", "owner"]: the strategy'
            f" {strategy} does not use groups: remove it, or write one of Spread,"
            " LeastLoaded, Custom"
        ]


def test_an_empty_group_by_says_nothing() -> None:
    assert said(placed_by("ConsistentHash", groupBy={"owner": False, "labels": []})) == []


def test_the_fields_of_group_by_are_bounded_and_must_parse() -> None:
    by = {"labels": ["a", "b", "c", "d/e/f"], "selectors": [{"matchLabels": {"-": ""}}] * 4}
    fields = [refusal.field for refusal in refusals(placed_by("Spread", groupBy=by), ())]

    assert fields == [
        "spec.placement.groupBy.labels",
        "spec.placement.groupBy.selectors",
        "spec.placement.groupBy.labels[3]",
        *(f"spec.placement.groupBy.selectors[{index}].matchLabels" for index in range(4)),
    ]


def test_zones_and_anti_affinity_are_for_least_loaded() -> None:
    only = "only the strategy LeastLoaded takes it: remove it, or write strategy: LeastLoaded"
    fields = {"antiAffinity": "Required", "minZones": 2}

    assert said(placed_by("LeastLoaded", **fields)) == []
    assert said(placed_by("Spread", **fields)) == [
        f'spec.placement.antiAffinity: Invalid value: "Required": {only}',
        f"spec.placement.minZones: Invalid value: 2: {only}",
    ]


@pytest.mark.parametrize("zones", [0, 101, -1])
def test_zones_are_a_number_from_1_to_100(zones: int) -> None:
    assert said(placed_by("LeastLoaded", minZones=zones)) == [
        f"spec.placement.minZones: Invalid value: {zones}: write a number from 1 to 100"
    ]


@pytest.mark.parametrize("balance", ["ResourceBalance", "EvenLoad"])
def test_rebalancing_needs_a_strategy_that_sticks(balance: str) -> None:
    for strategy in FOLLOWING:
        of = ring_with(placement={"strategy": strategy}, rebalance={"strategy": balance})
        assert said(of) == [
            f'spec.rebalance.strategy: Invalid value: "{balance}": the strategy {strategy} places'
            " objects by their hash, which rebalancing would fight: write None, or a placement"
            " strategy that sticks (BoundedLoad, Spread, LeastLoaded, Custom)"
        ]
    for strategy in STICKING:
        placement = msgspec.to_builtins(placed_by(strategy).spec.placement)
        assert said(ring_with(placement=placement, rebalance={"strategy": balance})) == []


def rebalanced(**rebalance: object) -> list[str]:
    return said(ring_with(placement={"strategy": "Spread"}, rebalance=rebalance))


@pytest.mark.parametrize("text", ["0", "0.15", "12", "00.50", "1" * 20])
def test_a_number_of_0_or_more_is_a_threshold_and_a_gain(text: str) -> None:
    assert rebalanced(threshold=text, minGain=text) == []


@pytest.mark.parametrize(
    "text",
    ["", "auto", "-1", "+1", "0,15", "1e3", ".5", "5.", "inf", "nan", "1\n", "٣", "1_0", "1" * 21],
)
def test_an_invalid_number_is_neither_a_threshold_nor_a_gain(text: str) -> None:
    value = json.dumps(text, ensure_ascii=False)

    assert rebalanced(threshold=text, minGain=text) == [
        f"spec.rebalance.threshold: Invalid value: {value}: write Auto, or a number of 0 or more"
        ' in quotes, such as "0.15"',
        f"spec.rebalance.minGain: Invalid value: {value}: write a number of 0 or more in quotes,"
        ' such as "0.02"',
    ]


def test_auto_is_a_threshold_and_no_gain() -> None:
    assert rebalanced(threshold="Auto") == []
    assert len(rebalanced(minGain="Auto")) == 1


@pytest.mark.parametrize("text", ["1s", "1000ms", "5m", "1h30m", "0.5h"])
def test_an_interval_may_be_a_second_or_longer(text: str) -> None:
    assert rebalanced(interval=text) == []


@pytest.mark.parametrize(
    "text", ["", "0", "0s", "999ms", "-5m", "5", "5 m", "1d", "9999999999h", "1s" * 11]
)
def test_an_interval_below_a_second_or_without_a_duration_is_refused(text: str) -> None:
    assert rebalanced(interval=text) == [
        f'spec.rebalance.interval: Invalid value: "{text}": write a duration of 1s or more, such'
        " as 5m"
    ]


@pytest.mark.parametrize("moves", [0, -1])
def test_an_interval_has_room_for_a_move(moves: int) -> None:
    assert rebalanced(maxMovesPerInterval=1) == []
    assert rebalanced(maxMovesPerInterval=moves) == [
        f"spec.rebalance.maxMovesPerInterval: Invalid value: {moves}: write 1 or more; to move"
        " nothing, write strategy: None"
    ]


def test_resources_of_rebalancing_are_unique_bounded_and_must_parse() -> None:
    field = "spec.rebalance.resources"
    many = [f"r{number}" for number in range(11)]

    assert rebalanced(resources=["cpu", "example.com/gpu", "objects"]) == []
    assert rebalanced(resources=[]) == [
        f"{field}: Required value: rebalancing compares resources: write at least one, such as cpu"
    ]
    assert rebalanced(resources=many) == [
        f"{field}: Invalid value: 11: too many: write at most 10"
    ]
    assert rebalanced(resources=["cpu", "memory", "cpu"]) == [
        f'{field}[2]: Duplicate value: "cpu": it is listed already: remove this one'
    ]
    assert rebalanced(resources=["c p u"]) == [
        f'{field}[0]: Invalid value: "c p u": write {NAME}, or such a name behind a DNS domain and'
        " '/': example.com/team"
    ]


@pytest.mark.parametrize("field", ["maxConcurrentDrains", "maxMovesPerMinute"])
def test_limits_of_movement_are_no_less_than_0(field: str) -> None:
    assert said(ring_with(movement={field: 0})) == []
    assert said(ring_with(movement={field: 60})) == []
    assert said(ring_with(movement={field: -1})) == [
        f"spec.movement.{field}: Invalid value: -1: write 1 or more, or 0 for no limit; to move"
        " nothing, write paused: true"
    ]


@pytest.mark.parametrize("text", ["0", "0s", "1ms", "10m"])
def test_a_drain_may_have_any_time(text: str) -> None:
    assert said(ring_with(movement={"drainTimeout": text})) == []


@pytest.mark.parametrize("text", ["", "-1s", "10", "never", "9999999999h"])
def test_an_invalid_duration_of_a_drain_is_refused(text: str) -> None:
    assert said(ring_with(movement={"drainTimeout": text})) == [
        f'spec.movement.drainTimeout: Invalid value: "{text}": write a duration such as 10m, or 0s'
        " for none"
    ]


@pytest.mark.parametrize("strategy", StrategyName)
def test_every_ring_may_be_paused(strategy: StrategyName) -> None:
    placement = msgspec.to_builtins(placed_by(strategy).spec.placement)

    assert said(ring_with(placement=placement, movement={"paused": True})) == []


def test_a_long_value_is_named_by_its_beginning() -> None:
    (text,) = said(ring_with(objectSelector={"matchLabels": {"a": "x" * 10_000}}))

    assert len(text) < 400
    assert "xxx...: write" in text


def test_no_more_is_reported_at_a_time_than_can_be_read() -> None:
    assert len(said(ring_with(resources=[SECRETS] * MAX_RESOURCES))) == MAX_REFUSALS


def test_a_refusal_has_a_word_for_programs() -> None:
    (refusal,) = refusals(ring_with(resources=[SECRETS, SECRETS]), ())

    assert refusal == Refusal(
        field="spec.resources[1]",
        fault=Fault.DUPLICATE,
        value="secrets",
        advice="spec.resources[0] lists it already: merge this entry into that one, and remove it",
    )
    assert refusal.fault.cause == "FieldValueDuplicate"


texts = st.sampled_from(["", "a", "b", "-", "In", "Exists", "x" * 70])


selectors = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(texts, texts),
        "matchExpressions": st.lists(
            st.fixed_dictionaries({"key": texts, "operator": texts, "values": st.lists(texts)})
        ),
    },
)


resources = st.fixed_dictionaries({"resource": texts, "group": texts})


@given(
    st.fixed_dictionaries(
        {
            "resources": st.lists(
                st.builds(
                    lambda main, controlled, key: {
                        **main, "controlledResources": controlled, "hashKey": key
                    },
                    resources,
                    st.lists(resources),
                    st.sampled_from(["Object", "Namespace"]),
                )
            ),
            "namespaceSelector": selectors,
            "placement": st.fixed_dictionaries(
                {
                    "strategy": st.sampled_from(list(StrategyName)),
                    "custom": texts,
                    "minZones": st.integers(),
                    "perShardCapacity": st.none() | st.integers(),
                    "groupBy": st.fixed_dictionaries(
                        {"labels": st.lists(texts), "selectors": st.lists(selectors)}
                    ),
                }
            ),
            "rebalance": st.fixed_dictionaries(
                {
                    "strategy": st.sampled_from(list(RebalanceStrategy)),
                    "resources": st.lists(texts),
                    "threshold": st.text(),
                    "minGain": st.text(),
                    "interval": st.text(alphabet="0123456789.hms-"),
                    "maxMovesPerInterval": st.integers(),
                }
            ),
            "movement": st.fixed_dictionaries(
                {"maxMovesPerMinute": st.integers(), "drainTimeout": st.text()}
            ),
        }
    )
)  # fmt: skip
def test_whatever_a_ring_says_is_judged_and_every_refusal_says_what_to_do(
    spec: dict[str, object],
) -> None:
    for refusal in refusals(ring_with(**spec), ("a",)):
        assert refusal.field.startswith("spec.")
        assert any(w in refusal.advice for w in ("write", "remove", "add", "install"))


@pytest.mark.parametrize("count", [MAX_RESOURCES, MAX_RESOURCES + 1])
def test_a_ring_has_at_most_a_hundred_resources_controlled_ones_included(count: int) -> None:
    controlled = [{"resource": f"c{number}"} for number in range(count - 2)]
    resources = [{"resource": "a"}, {"resource": "b", "controlledResources": controlled}]

    found = refusals(ring_with(resources=resources), ())

    assert [refusal.field for refusal in found] == ["spec.resources"] * (count > MAX_RESOURCES)
    assert all(refusal.value == count for refusal in found)
