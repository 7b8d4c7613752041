"""Generates docs/labels.md from the names in the code."""

from pathlib import Path
from typing import Final

from sharder.core import names
from sharder.core.names import RingName

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final = ROOT / "docs/labels.md"

RING: Final = RingName("<ring>")

HEAD: Final = """\
# Labels, annotations and names

<!-- Written by `make reference` from sharder/core/names.py and hack/reference/labels.py: change \
these. -->

Look up a name on the wire; `<ring>` is the name of a ControllerRing.
[protocol.md](protocol.md) says what they mean to shards.
"""

OF_OBJECTS: Final = """\
An object can [ask for a shard, a pool, a region or a zone](placement.md#what-objects-say), \
declare its load, and influence [when it moves for balance]\
(rebalancing.md#which-object-moves-first).
The sharder writes owner, drain and `next`.
"""

OF_LEASES: Final = """\
A shard describes itself on its Lease; [placement.md](placement.md#what-shards-say) explains the \
effects.
The SDK writes these values from its settings, except `cordoned` and `evacuated`, which people \
write.
The leader writes the state.
"""

OTHERS: Final = """\
The rotate annotation is on the [Secret of the certificates](install.md#certificates).
"""

Row = tuple[str, str, str]

OBJECTS: Final[list[Row]] = [
    ("owner", "label", names.owner_label(RING)),
    ("drain", "label", names.drain_label(RING)),
    ("next owner", "annotation", names.next_annotation(RING)),
    ("pinned shard", "label", names.pin_label(RING)),
    ("wanted pool", "label", names.POOL_LABEL),
    ("wanted region", "label", names.WANTED_REGION_LABEL),
    ("wanted zone", "label", names.WANTED_ZONE_LABEL),
    ("load", "annotation", names.LOAD_ANNOTATION),
    ("move cost", "annotation", names.MOVE_COST_ANNOTATION),
    ("Koordinator's move cost", "annotation", names.EVICTION_COST_ANNOTATION),
    ("priority", "annotation", names.PRIORITY_ANNOTATION),
    ("quality of service", "annotation", names.QOS_CLASS_ANNOTATION),
    ("cost of deletion", "annotation", names.DELETION_COST_ANNOTATION),
    ("Koordinator's priority class", "label", names.KOORDINATOR_PRIORITY_CLASS_LABEL),
    ("Koordinator's quality of service", "label", names.KOORDINATOR_QOS_LABEL),
]
LEASES: Final[list[Row]] = [
    ("ring", "label", names.RING_LABEL),
    ("state", "label", names.STATE_LABEL),
    ("region", "label", names.REGION_LABEL),
    ("zone", "label", names.ZONE_LABEL),
    ("node", "label", names.HOSTNAME_LABEL),
    ("revision of the controller", "label", names.REVISION_LABEL),
    ("pool", "annotation", names.POOL_ANNOTATION),
    ("capacity", "annotation", names.CAPACITY_ANNOTATION),
    ("weight", "annotation", names.WEIGHT_ANNOTATION),
    ("cordoned", "annotation", names.CORDONED_ANNOTATION),
    ("evacuated", "annotation", names.EVACUATE_ANNOTATION),
    ("why it cannot work", "annotation", names.PROBLEM_ANNOTATION),
    ("uid of the pod that holds it", "annotation", names.POD_UID_ANNOTATION),
    ("sharder", "holder of a Lease that it took", names.SHARDER_IDENTITY),
]
OTHER: Final[list[Row]] = [
    ("ControllerRing", "API group and version", f"{names.API_GROUP}/{names.API_VERSION}"),
    ("SharderConfig", "API group and version", names.CONFIG_API_VERSION),
    ("system", "namespace", names.SYSTEM_NAMESPACE),
    ("never sharded", "namespace", names.EXCLUDED_NAMESPACE),
    ("of a ring", "webhook configuration", names.webhook_configuration(RING)),
    ("for objects without owner label", "webhook", names.WEBHOOK_NAME),
    ("for objects with owner label", "webhook", names.LABELLED_WEBHOOK_NAME),
    ("for new main objects", "webhook", names.CREATED_WEBHOOK_NAME),
    ("for objects", "path of the webhook", names.webhook_path(RING, "<token>")),
    ("for ControllerRings", "webhook and its configuration", names.VALIDATION_NAME),
    ("for ControllerRings", "path of the webhook", names.VALIDATION_PATH),
    ("metrics", "path, and nonResourceURL of the right to read them", names.METRICS_PATH),
    ("of webhook configurations", "field manager", names.FIELD_MANAGER),
    ("rotate", "annotation of a Secret", names.ROTATE_ANNOTATION),
]


def document() -> str:
    """Return the page."""
    parts = [
        HEAD,
        *_section("On objects", OF_OBJECTS, OBJECTS),
        *_section("On Leases", OF_LEASES, LEASES),
        *_section("Elsewhere", OTHERS, OTHER),
    ]
    return "\n".join(parts)


def _section(heading: str, about: str, rows: list[Row]) -> list[str]:
    lines = [f"| {what} | {kind} | `{value}` |\n" for what, kind, value in rows]
    return [f"## {heading}\n", about, "".join(["| What | Kind | Name |\n|---|---|---|\n", *lines])]
