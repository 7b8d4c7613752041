"""What the API server makes of `spec.placement` and of a ring's status."""

import json

import msgspec
import pytest
import yaml

from hack.control_plane import ControlPlane
from hack.kubectl import KubectlError
from hack.playground import CRD
from sharder.api.ring import Condition, ControllerRing, LastResync, RingStatus, ShardStatus
from sharder.controllers.status import encode_status
from sharder.names import API_GROUP, API_VERSION
from tests.support.eventually import eventually

Fields = dict[str, object]

DEFAULTS: Fields = {
    "strategy": "ConsistentHash",
    "useTopologyLabels": False,
    "antiAffinity": "Preferred",
    "minZones": 1,
    "requireZone": False,
    "requirePool": False,
}
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
        ),
        # Of a shard of a strategy that knows no counts, and that says nothing of itself.
        ShardStatus(name="shard-b", state="expired"),
    ),
    shard_statuses_truncated=True,
    last_resync=LastResync(
        time=NOON, duration_seconds=0.25, assigned=1, moved=2, drained=3, conflicts=4
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


@pytest.mark.parametrize("spec", [{}, {"placement": {}}, {"placement": None}], ids=str)
def test_a_ring_that_says_nothing_of_placement_is_placed_as_in_the_reference(
    plane: ControlPlane, spec: Fields
) -> None:
    assert taken(plane, spec) == {"placement": DEFAULTS}


def test_all_that_a_ring_says_of_placement_is_kept(plane: ControlPlane) -> None:
    said = {
        **DEFAULTS,
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

    assert taken(plane, {"placement": said}) == {"placement": said}


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
def test_a_field_that_a_strategy_would_not_look_at_is_refused(
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


@pytest.mark.parametrize("strategy", STICKING)
def test_a_strategy_that_places_each_object_by_itself_has_no_hash_key_namespace(
    plane: ControlPlane, strategy: str
) -> None:
    with pytest.raises(KubectlError, match="set one of these, or leave hashKey out"):
        taken(plane, placement(strategy) | BY_NAMESPACE)


@pytest.mark.parametrize("strategy", FOLLOWING)
def test_a_strategy_that_follows_the_hash_may_have_the_hash_key_namespace(
    plane: ControlPlane, strategy: str
) -> None:
    assert taken(plane, placement(strategy) | BY_NAMESPACE)


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
            "In and NotIn need at least one of values",
        ),
    ],
    ids=str,
)
def test_a_value_that_nothing_can_be_made_of_is_refused(
    plane: ControlPlane, fields: Fields, complaint: str
) -> None:
    with pytest.raises(KubectlError, match=complaint):
        taken(plane, {"placement": {"strategy": "LeastLoaded", **fields}})


async def test_a_ring_that_was_stored_before_there_was_placement_gets_the_defaults(
    plane: ControlPlane,
) -> None:
    crd = yaml.safe_load(CRD.read_text())
    crd["metadata"]["name"] = f"formerrings.{API_GROUP}"
    crd["spec"]["names"] = {"kind": "FormerRing", "plural": "formerrings"}
    with_placement = json.dumps(crd)
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["placement"], spec["x-kubernetes-validations"]
    plane.apply(json.dumps(crd))
    plane.kubectl("wait", "--for=condition=Established", f"crd/formerrings.{API_GROUP}")
    plane.apply(ring(BY_NAMESPACE, kind="FormerRing"))

    plane.apply(with_placement)

    read = ("get", "formerrings", "fields", "-o", "jsonpath={.spec.placement}")
    assert json.loads(await eventually(lambda: said(plane, *read), within=30)) == DEFAULTS
    assert plane.kubectl("label", "formerrings", "fields", "a=b")


async def said(plane: ControlPlane, *arguments: str) -> str:
    text = plane.kubectl(*arguments)
    assert text
    return text


def test_a_status_is_kept_as_it_is_written(plane: ControlPlane) -> None:
    plane.apply(ring({}, name="full"))

    assert status_after(plane, "full", FULL) == FULL


def test_what_is_no_more_known_is_gone_from_a_status(plane: ControlPlane) -> None:
    plane.apply(ring({}, name="emptied"))
    status_after(plane, "emptied", FULL)

    assert status_after(plane, "emptied", RingStatus()) == RingStatus()


def status_after(plane: ControlPlane, name: str, status: RingStatus) -> RingStatus:
    """Write a status as the sharder does, and return what became of it."""
    body = json.dumps(encode_status(status))
    written = plane.kubectl(
        "patch", "controllerring", name, "--subresource=status", "--type=merge", "-p", body,
        "-o", "json",
    )  # fmt: skip
    return msgspec.json.decode(written, type=ControllerRing).status
