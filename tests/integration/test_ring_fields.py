"""What the API server makes of a ring's placement, rebalancing and movement, and of its status."""

import json
import re
from collections.abc import Mapping

import pytest

from hack import objects
from hack.control_plane import ControlPlane, KubectlError
from sharder.core.api.meta import Json

Fields = dict[str, Json]

PLACEMENT: Fields = {
    "strategy": "ConsistentHash",
    "useTopologyLabels": False,
    "antiAffinity": "Preferred",
    "minZones": 1,
    "requireZone": False,
    "requirePool": False,
}
REBALANCE: Fields = {
    "strategy": "None",
    "resources": ["cpu", "memory"],
    "threshold": "Auto",
    "minGain": "0.02",
    "interval": "5m",
    "maxMovesPerInterval": 50,
    "dryRun": False,
}
MOVEMENT: Fields = {
    "paused": False,
    "maxConcurrentDrains": 0,
    "maxMovesPerMinute": 0,
    "drainTimeout": "5m",
}
DEFAULTS: Fields = {"placement": PLACEMENT, "rebalance": REBALANCE, "movement": MOVEMENT}
FOLLOWING = ("ConsistentHash", "Rendezvous")
STICKING = ("BoundedLoad", "Spread", "LeastLoaded", "Custom")


def taken(control_plane: ControlPlane, spec: Fields) -> Fields:
    """Return the spec as the API server would store it."""
    apply = ("apply", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-")
    ring = json.dumps(objects.ring("fields", spec))
    taken: Fields = json.loads(control_plane.kubectl(*apply, stdin=ring))["spec"]
    return taken


def placement(strategy: str, **fields: Json) -> Fields:
    """Return a spec with a strategy and whatever it cannot be without."""
    needed = {"custom": "nearest"} if strategy == "Custom" else {}
    return {"placement": {"strategy": strategy, **needed, **fields}}


@pytest.mark.parametrize(
    "spec", [{}, {field: {} for field in DEFAULTS}, dict.fromkeys(DEFAULTS)], ids=str
)
def test_a_ring_with_default_placement_and_movement_behaves_as_in_the_reference(
    control_plane: ControlPlane, spec: Fields
) -> None:
    assert taken(control_plane, spec) == DEFAULTS


@pytest.mark.parametrize("strategy", [*FOLLOWING, *STICKING])
def test_only_a_strategy_that_sticks_can_be_rebalanced(
    control_plane: ControlPlane, strategy: str
) -> None:
    for balance in ("ResourceBalance", "EvenLoad"):
        spec = placement(strategy) | {"rebalance": {"strategy": balance}}
        if strategy in STICKING:
            assert taken(control_plane, spec)
        else:
            with pytest.raises(KubectlError, match=r"rebalance\.strategy: .*fight the hash"):
                taken(control_plane, spec)
    assert taken(control_plane, placement(strategy) | {"rebalance": {"threshold": "0.15"}})


NUMBER = "write a number of 0 or more in quotes"
THRESHOLD = "write Auto, or a number of 0 or more in quotes"
INTERVAL = "write a duration of 1s or more, such as 5m"
TIMEOUT = "write a duration such as 10m, or 0s for none"


def selecting(**requirement: Json) -> Fields:
    return {"namespaceSelector": {"matchExpressions": [{"key": "a", **requirement}]}}


def resources(*found: Json) -> Fields:
    return {"resources": found}


IN: Json = {"key": "a", "operator": "In"}
OF_A_PART: list[tuple[str, Mapping[str, Json], str]] = [
    ("rebalance", {"strategy": "Random"}, '"Random": supported values: "None"'),
    ("rebalance", {"resources": []}, "should have at least 1 items"),
    ("rebalance", {"resources": ["a"] * 2}, r"resources\[1\]: Duplicate value"),
    ("rebalance", {"resources": ["a b"]}, '"a b": .*should match'),
    *(("rebalance", {"threshold": text}, THRESHOLD) for text in ("", "-0.1", "1e3", "1\n")),
    *(("rebalance", {"minGain": text}, NUMBER) for text in ("Auto", "nan", "-0.05")),
    *(("rebalance", {"interval": text}, INTERVAL) for text in ("", "999ms", "-5m", "5")),
    ("rebalance", {"interval": "9999999999h"}, r"rebalance\.interval: Invalid value"),
    ("rebalance", {"maxMovesPerInterval": 0}, "greater than or equal to 1"),
    ("movement", {"maxConcurrentDrains": -1}, "greater than or equal to 0"),
    *(("movement", {"drainTimeout": text}, TIMEOUT) for text in ("", "-1s", "10")),
    ("movement", {"pause": True}, "unknown field"),
]
OF_PLACEMENT: list[tuple[Mapping[str, Json], str]] = [
    ({"antiAffinity": "Maybe"}, '"Maybe": supported values: "Preferred", "Required"'),
    ({"custom": "a b"}, '"a b": .*should match'),
    ({"perShardCapacity": 0}, "greater than or equal to 1"),
    ({"minZones": 101}, "less than or equal to 100"),
    ({"groupBy": {"labels": list("abcd")}}, "labels: Too many: 4: must have at most 3"),
    ({"groupBy": {"selectors": [{"matchExpressions": [IN]}]}}, "In and NotIn need at least one"),
]


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        *((placement("Spread") | {part: fields}, says) for part, fields, says in OF_A_PART),
        *((placement("LeastLoaded", **fields), says) for fields, says in OF_PLACEMENT),
        (
            {"placement": {"strategy": "Custom"}},
            r"placement\.custom: Required value: .*entry point",
        ),
        (resources({"group": "apps"}), r"spec.resources\[0\].resource: Required value"),
        (
            resources({"resource": "secrets"}, {"resource": "secrets", "group": ""}),
            r"spec.resources\[1\]: Duplicate value",
        ),
        (
            resources({"resource": "a", "controlledResources": [{"resource": "b"}] * 2}),
            r"spec.resources\[0\].controlledResources\[1\]: Duplicate value",
        ),
        *(
            (resources({"resource": name}), f'"{re.escape(name)}": .*should match')
            for name in ("Secret", "pods/status", "*")
        ),
        (resources({"group": "apps/v1", "resource": "a"}), '"apps/v1": .*should match'),
        (selecting(operator="in"), 'supported values: "In", "NotIn", "Exists", "DoesNotExist"'),
        (selecting(operator="In"), "In and NotIn need at least one value"),
        (selecting(operator="Exists", values=["b"]), "Exists and DoesNotExist take no values"),
    ],
    ids=str,
)
def test_an_invalid_field_of_a_ring_is_refused_with_what_it_can_be(
    control_plane: ControlPlane, spec: Fields, complaint: str
) -> None:
    with pytest.raises(KubectlError, match=complaint):
        taken(control_plane, spec)


@pytest.mark.parametrize(
    ("fields", "strategies"),
    [
        ({"perShardCapacity": 1}, STICKING),
        ({"poolCapacity": 1}, STICKING),
        ({"groupBy": {"owner": True}}, ("Spread", "LeastLoaded", "Custom")),
        ({"antiAffinity": "Required"}, ("LeastLoaded",)),
        ({"minZones": 2}, ("LeastLoaded",)),
        ({"custom": "nearest"}, ("Custom",)),
    ],
    ids=str,
)
def test_a_field_that_the_strategy_does_not_use_is_refused(
    control_plane: ControlPlane, fields: Fields, strategies: tuple[str, ...]
) -> None:
    (field,) = fields
    useless = [each for each in (*FOLLOWING, *STICKING) if each not in strategies]

    for strategy in strategies:
        assert taken(control_plane, placement(strategy, **fields))
    for strategy in useless:
        with pytest.raises(KubectlError, match=f"placement.{field}: .*, or leave {field} out"):
            taken(control_plane, placement(strategy, **fields))
