"""The gauges of rings and their shards, which are all shown anew every few seconds."""

from typing import Final, TypeAlias

from sharder.metrics.collectors import RING

Series: TypeAlias = tuple[str, tuple[str, ...], float]
"""The name of a gauge, the values of its labels, and its value."""

_SHARD: Final = ("namespace", "shard", RING)

RING_GAUGES: Final = {
    "controllerring_metadata_generation": (
        "Generation of the ControllerRing's spec that this replica has seen",
        *(RING, "uid"),
    ),
    "controllerring_observed_generation": (
        "Generation that the ControllerRing's status describes",
        *(RING, "uid"),
    ),
    "controllerring_status_shards": (
        "Valid Leases of shards, including those of shards that are gone",
        *(RING, "uid"),
    ),
    "controllerring_status_available_shards": ("Shards that can own objects", RING, "uid"),
    "controllerring_unreadable": (
        "1 for a ring that this version cannot decode; others have no such series",
        RING,
    ),
    "invalid_leases": (
        "Invalid Leases of the ring, which are ignored; an Event on each says why",
        RING,
    ),
    "shard_info": ("1, with the uid of the shard's Lease", *_SHARD, "uid"),
    "shard_state": ("1 for the present state of the shard, else 0", *_SHARD, "state"),
    "controllerring_condition": (
        "1 for the present status of the ring's condition, else 0",
        *(RING, "condition", "status"),
    ),
    "controllerring_objects": (
        "Main objects in the ring's scope, assigned or not",
        RING,
    ),
    "shard_objects": (
        "Main objects that a shard owns, draining ones included",
        *_SHARD,
    ),
    "shard_capacity": (
        "Main objects that a shard can own; absent without a limit",
        *_SHARD,
    ),
}
