"""What the API server makes of a ring's placement, rebalancing and movement, and of its status."""

import json

import msgspec
import pytest
import yaml

from hack.control_plane import ControlPlane, KubectlError
from hack.playground import CRD
from sharder.core.api.ring import (
    Condition,
    ControllerRing,
    LastRebalance,
    LastResync,
    PlannedMove,
    RingStatus,
    ShardStatus,
)
from sharder.core.names import API_GROUP, API_VERSION
from sharder.core.status.status import encode_status
from tests.support.eventually import eventually

Fields = dict[str, object]

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
NOON = "2026-01-01T12:00:00Z"
FULL = RingStatus(
    observed_generation=1,
    shards=2,
    available_shards=2,
    objects=40,
    assigned=33,
    unassigned=7,
    draining=1,
    uncontrolled=5,
    oldest_unassigned_since=NOON,
    oldest_drain_since=NOON,
    shard_statuses=(
        ShardStatus(
            name="shard-a",
            state="ready",
            objects=33,
            load={"objects": "33"},
            capacity={"objects": "33", "memory": "8Gi"},
            zone="a",
            pool="small",
            cordoned=True,
            evacuating=True,
        ),
        # Of a shard of a strategy that knows no counts, and that says nothing of itself.
        ShardStatus(name="shard-b", state="expired"),
    ),
    shard_statuses_truncated=True,
    last_resync=LastResync(
        time=NOON, duration_seconds=0.25, assigned=1, moved=2, drained=3, conflicts=4
    ),
    last_rebalance=LastRebalance(
        time=NOON,
        dry_run=True,
        moves=30,
        why="30 moves",
        planned=tuple(
            PlannedMove(object=f"/Secret/default/s-{n}", source="shard-a", target="shard-b")
            for n in range(20)
        ),
    ),
    conditions=(
        Condition(
            type="Covered",
            status="False",
            reason="ObjectsUnassigned",
            message="7 objects have no owner",
            observed_generation=1,
            last_transition_time=NOON,
        ),
    ),
)


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    control_plane.apply(CRD)
    control_plane.kubectl("wait", "--for=condition=Established", "-f", str(CRD))
    return control_plane


def ring(spec: object, *, name: str = "fields", kind: str = "ControllerRing") -> str:
    """Return the manifest of a ring."""
    return json.dumps(
        {
            "apiVersion": f"{API_GROUP}/{API_VERSION}",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
    )


def taken(plane: ControlPlane, spec: object) -> Fields:
    """Return the spec as the API server would store it."""
    apply = ("apply", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-")
    return msgspec.convert(json.loads(plane.kubectl(*apply, stdin=ring(spec)))["spec"], Fields)


def placement(strategy: str, **fields: object) -> Fields:
    """Return a spec with a strategy and whatever it cannot be without."""
    needed = {"custom": "nearest"} if strategy == "Custom" else {}
    return {"placement": {"strategy": strategy, **needed, **fields}}


@pytest.mark.parametrize(
    "spec", [{}, {field: {} for field in DEFAULTS}, dict.fromkeys(DEFAULTS)], ids=str
)
def test_a_ring_with_default_placement_and_movement_behaves_as_in_the_reference(
    plane: ControlPlane, spec: Fields
) -> None:
    assert taken(plane, spec) == DEFAULTS


def test_all_fields_of_placement_are_kept(plane: ControlPlane) -> None:
    said = {
        **PLACEMENT,
        "strategy": "LeastLoaded",
        "perShardCapacity": 100,
        "useTopologyLabels": True,
        "groupBy": {
            "labels": ["app", "example.com/tier"],
            "selectors": [{"matchLabels": {"role": "db"}}, {}],
            "owner": True,
        },
        "antiAffinity": "Required",
        "minZones": 3,
        "requireZone": True,
        "requirePool": True,
        "poolCapacity": 6000,
    }

    assert taken(plane, {"placement": said}) == DEFAULTS | {"placement": said}


def test_all_fields_of_movement_are_kept(plane: ControlPlane) -> None:
    said: Fields = {
        "placement": PLACEMENT | {"strategy": "BoundedLoad"},
        "rebalance": {
            "strategy": "ResourceBalance",
            "resources": ["objects", "example.com/gpu"],
            "threshold": "0.15",
            "minGain": "0",
            "interval": "1m30s",
            "maxMovesPerInterval": 1,
            "dryRun": True,
        },
        "movement": {
            "paused": True,
            "maxConcurrentDrains": 5,
            "maxMovesPerMinute": 60,
            "drainTimeout": "10m",
        },
    }

    assert taken(plane, said) == said


@pytest.mark.parametrize("strategy", [*FOLLOWING, *STICKING])
def test_only_a_strategy_that_sticks_can_be_rebalanced(plane: ControlPlane, strategy: str) -> None:
    for balance in ("ResourceBalance", "EvenLoad"):
        spec = placement(strategy) | {"rebalance": {"strategy": balance}}
        if strategy in STICKING:
            assert taken(plane, spec)
        else:
            with pytest.raises(KubectlError, match=r"rebalance\.strategy: .*fight the hash"):
                taken(plane, spec)
    assert taken(plane, placement(strategy) | {"rebalance": {"threshold": "0.15"}})


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
        ("rebalance", {"resources": list("abcdefghijk")}, "Too many: 11: must have at most 10"),
        ("rebalance", {"resources": ["a b"]}, '"a b": .*should match'),
        ("rebalance", {"threshold": 0.15}, "must be of type string"),
        *(
            ("rebalance", {"threshold": text}, THRESHOLD)
            for text in ("", "auto", "-0.1", "+1", "1e3", "inf", "0,15", ".5", "5.", "1\n")
        ),
        ("rebalance", {"threshold": "1" * 21}, "Too long: may not be more than 20"),
        *(("rebalance", {"minGain": text}, NUMBER) for text in ("", "Auto", "-1", "nan")),
        *(
            ("rebalance", {"interval": text}, INTERVAL)
            for text in ("", "0", "999ms", "-5m", "5", "5 m", "1d")
        ),
        ("rebalance", {"interval": "1s" * 11}, "Too long: may not be more than 20"),
        ("rebalance", {"interval": "9999999999h"}, r"rebalance\.interval: Invalid value"),
        ("rebalance", {"maxMovesPerInterval": 0}, "greater than or equal to 1"),
        ("rebalance", {"maxMovesPerInterval": 2**31}, "type integer with format int32"),
        ("movement", {"maxConcurrentDrains": -1}, "greater than or equal to 0"),
        ("movement", {"maxMovesPerMinute": -1}, "greater than or equal to 0"),
        *(("movement", {"drainTimeout": text}, TIMEOUT) for text in ("", "-1s", "10", "never")),
        ("movement", {"drainTimeout": "9999999999h"}, r"movement\.drainTimeout: Invalid value"),
        ("movement", {"pause": True}, "unknown field"),
    ],
    ids=str,
)
def test_an_invalid_limit_of_movement_is_refused(
    plane: ControlPlane, part: str, fields: Fields, complaint: str
) -> None:
    with pytest.raises(KubectlError, match=complaint):
        taken(plane, placement("Spread") | {part: fields})


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
    plane: ControlPlane, fields: Fields, strategies: tuple[str, ...]
) -> None:
    (field,) = fields
    useless = [each for each in (*FOLLOWING, *STICKING) if each not in strategies]

    for strategy in strategies:
        assert taken(plane, placement(strategy, **fields))
    for strategy in useless:
        with pytest.raises(KubectlError, match=f"placement.{field}: .*, or leave {field} out"):
            taken(plane, placement(strategy, **fields))


def test_the_strategy_custom_needs_the_name_of_an_entry_point(plane: ControlPlane) -> None:
    with pytest.raises(KubectlError, match=r"placement\.custom: Required value: .*entry point"):
        taken(plane, {"placement": {"strategy": "Custom"}})


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"strategy": "Random"}, '"Random": supported values: "ConsistentHash"'),
        ({"antiAffinity": "Maybe"}, '"Maybe": supported values: "Preferred", "Required"'),
        ({"custom": "a b"}, '"a b": .*should match'),
        ({"perShardCapacity": 0}, "greater than or equal to 1"),
        ({"poolCapacity": 0}, "greater than or equal to 1"),
        ({"minZones": 0}, "greater than or equal to 1"),
        ({"minZones": 101}, "less than or equal to 100"),
        ({"groupBy": {"labels": ["a b"]}}, '"a b": .*should match'),
        ({"groupBy": {"labels": ["a"] * 2}}, r"labels\[1\]: Duplicate value"),
        ({"groupBy": {"labels": list("abcd")}}, "labels: Too many: 4: must have at most 3"),
        ({"groupBy": {"selectors": [{}] * 4}}, "selectors: Too many: 4: must have at most 3"),
        (
            {"groupBy": {"selectors": [{"matchExpressions": [{"key": "a", "operator": "In"}]}]}},
            "In and NotIn need at least one value",
        ),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_parsed_is_refused(
    plane: ControlPlane, fields: Fields, complaint: str
) -> None:
    with pytest.raises(KubectlError, match=complaint):
        taken(plane, {"placement": {"strategy": "LeastLoaded", **fields}})


async def test_a_ring_that_was_stored_before_there_were_these_fields_gets_the_defaults(
    plane: ControlPlane,
) -> None:
    crd = yaml.safe_load(CRD.read_text())
    crd["metadata"]["name"] = f"formerrings.{API_GROUP}"
    crd["spec"]["names"] = {"kind": "FormerRing", "plural": "formerrings"}
    complete = json.dumps(crd)
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["x-kubernetes-validations"]
    for field in DEFAULTS:
        del spec["properties"][field]
    plane.apply(json.dumps(crd))
    plane.kubectl("wait", "--for=condition=Established", f"crd/formerrings.{API_GROUP}")
    plane.apply(ring(BY_NAMESPACE, kind="FormerRing"))

    plane.apply(complete)

    read = ("get", "formerrings", "fields", "-o", "jsonpath={.spec}")
    await eventually(lambda: stored(plane, *read, spec=DEFAULTS | BY_NAMESPACE), within=30)
    assert plane.kubectl("label", "formerrings", "fields", "a=b")


async def stored(plane: ControlPlane, *read: str, spec: Fields) -> None:
    found = msgspec.json.decode(plane.kubectl(*read), type=Fields)
    expected = {
        **spec,
        "resources": [{"group": "", "resource": "secrets", "hashKey": "Namespace"}],
    }
    assert found == expected


def test_a_status_is_kept_as_it_is_written(plane: ControlPlane) -> None:
    plane.apply(ring({}, name="full"))

    assert status_after(plane, "full", FULL) == FULL


def test_a_status_with_more_planned_moves_than_are_reported_is_refused(
    plane: ControlPlane,
) -> None:
    plane.apply(ring({}, name="talkative"))
    assert FULL.last_rebalance is not None
    planned = FULL.last_rebalance.planned
    look = msgspec.structs.replace(FULL.last_rebalance, planned=(*planned, planned[0]))

    with pytest.raises(KubectlError, match="planned: Too many: 21: must have at most 20"):
        status_after(plane, "talkative", msgspec.structs.replace(FULL, last_rebalance=look))


def status_after(plane: ControlPlane, name: str, status: RingStatus) -> RingStatus:
    """Write a status as the sharder does, and return what became of it."""
    body = json.dumps(encode_status(status))
    written = plane.kubectl(
        "patch", "controllerring", name, "--subresource=status", "--type=merge", "-p", body,
        "-o", "json",
    )  # fmt: skip
    return msgspec.json.decode(written, type=ControllerRing).status
