"""What the API server makes of a ring's placement, rebalancing and movement, and of its status."""

import json

import pytest
import yaml

from hack import objects
from hack.control_plane import ControlPlane, KubectlError
from hack.playground import CRD
from sharder.core.api.meta import Json
from sharder.core.names import API_GROUP
from tests.support.eventually import eventually

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
BY_NAMESPACE: Fields = {"resources": [{"resource": "secrets", "hashKey": "Namespace"}]}


def ring(spec: Fields, *, kind: str = "ControllerRing") -> str:
    """Return the manifest of a ring."""
    return json.dumps({**objects.ring("fields", spec), "kind": kind})


def taken(control_plane: ControlPlane, spec: Fields) -> Fields:
    """Return the spec as the API server would store it."""
    apply = ("apply", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-")
    taken: Fields = json.loads(control_plane.kubectl(*apply, stdin=ring(spec)))["spec"]
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


@pytest.mark.parametrize(
    ("part", "fields", "complaint"),
    [
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
    ],
    ids=str,
)
def test_an_invalid_limit_of_movement_is_refused(
    control_plane: ControlPlane, part: str, fields: Fields, complaint: str
) -> None:
    with pytest.raises(KubectlError, match=complaint):
        taken(control_plane, placement("Spread") | {part: fields})


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


def test_the_strategy_custom_needs_the_name_of_an_entry_point(control_plane: ControlPlane) -> None:
    with pytest.raises(KubectlError, match=r"placement\.custom: Required value: .*entry point"):
        taken(control_plane, {"placement": {"strategy": "Custom"}})


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"antiAffinity": "Maybe"}, '"Maybe": supported values: "Preferred", "Required"'),
        ({"custom": "a b"}, '"a b": .*should match'),
        ({"perShardCapacity": 0}, "greater than or equal to 1"),
        ({"minZones": 101}, "less than or equal to 100"),
        ({"groupBy": {"labels": list("abcd")}}, "labels: Too many: 4: must have at most 3"),
        (
            {"groupBy": {"selectors": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}},
            "In and NotIn need at least one value",
        ),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_parsed_is_refused(
    control_plane: ControlPlane, fields: Fields, complaint: str
) -> None:
    with pytest.raises(KubectlError, match=complaint):
        taken(control_plane, {"placement": {"strategy": "LeastLoaded", **fields}})


async def test_a_ring_that_was_stored_before_there_were_these_fields_gets_the_defaults(
    control_plane: ControlPlane,
) -> None:
    crd = yaml.safe_load(CRD.read_text())
    crd["metadata"]["name"] = f"formerrings.{API_GROUP}"
    crd["spec"]["names"] = {"kind": "FormerRing", "plural": "formerrings"}
    complete = json.dumps(crd)
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["x-kubernetes-validations"]
    for field in DEFAULTS:
        del spec["properties"][field]
    control_plane.apply(json.dumps(crd))
    control_plane.kubectl("wait", "--for=condition=Established", f"crd/formerrings.{API_GROUP}")
    control_plane.apply(ring(BY_NAMESPACE, kind="FormerRing"))

    control_plane.apply(complete)

    read = ("get", "formerrings", "fields", "-o", "jsonpath={.spec}")
    await eventually(lambda: stored(control_plane, *read, spec=DEFAULTS | BY_NAMESPACE), within=30)
    assert control_plane.kubectl("label", "formerrings", "fields", "a=b")


async def stored(control_plane: ControlPlane, *read: str, spec: Fields) -> None:
    found = json.loads(control_plane.kubectl(*read))
    expected = {
        **spec,
        "resources": [{"group": "", "resource": "secrets", "hashKey": "Namespace"}],
    }
    assert found == expected
