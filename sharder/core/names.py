"""The words of the protocol: names of rings and shards, and the labels that carry them.

Everything that goes over the wire under a fixed name stands here and nowhere else
(docs/protocol.md, "Names").
"""

import re
from typing import Final, NamedTuple, NewType

from typing_extensions import override

RingName = NewType("RingName", str)
ShardName = NewType("ShardName", str)

API_GROUP: Final = "sharding.timebertt.dev"
API_VERSION: Final = "v1alpha1"
CONFIG_API_VERSION: Final = "config.sharding.timebertt.dev/v1alpha1"

SYSTEM_NAMESPACE: Final = "sharding-system"
RING_LABEL: Final = "alpha.sharding.timebertt.dev/controllerring"
STATE_LABEL: Final = "alpha.sharding.timebertt.dev/state"
REVISION_LABEL: Final = "alpha.sharding.timebertt.dev/revision"
POOL_ANNOTATION: Final = "alpha.sharding.timebertt.dev/pool"
CAPACITY_ANNOTATION: Final = "alpha.sharding.timebertt.dev/capacity"
WEIGHT_ANNOTATION: Final = "alpha.sharding.timebertt.dev/weight"
CORDONED_ANNOTATION: Final = "alpha.sharding.timebertt.dev/cordoned"
EVACUATE_ANNOTATION: Final = "alpha.sharding.timebertt.dev/evacuate"
EVACUATE_ON_STOP: Final = "on-stop"
"""Its value where the shard itself wrote it because it is about to stop; people write `true`."""
POD_UID_ANNOTATION: Final = "alpha.sharding.timebertt.dev/pod-uid"
"""Of the pod in which the holder of a Lease runs: what was held there before is at an end."""
LOAD_ANNOTATION: Final = "alpha.sharding.timebertt.dev/load"
MOVE_COST_ANNOTATION: Final = "alpha.sharding.timebertt.dev/move-cost"
PRIORITY_ANNOTATION: Final = "alpha.sharding.timebertt.dev/priority"
"""As a Pod's `spec.priority`, which metadata lacks; likewise the next one, `status.qosClass`."""
QOS_CLASS_ANNOTATION: Final = "alpha.sharding.timebertt.dev/qos-class"
DELETION_COST_ANNOTATION: Final = "controller.kubernetes.io/pod-deletion-cost"
EVICTION_COST_ANNOTATION: Final = "scheduling.koordinator.sh/eviction-cost"
KOORDINATOR_PRIORITY_CLASS_LABEL: Final = "koordinator.sh/priority-class"
KOORDINATOR_QOS_LABEL: Final = "koordinator.sh/qosClass"
POOL_LABEL: Final = "alpha.sharding.timebertt.dev/pool"
"""Of an object: only shards of that pool; likewise the next two."""
WANTED_REGION_LABEL: Final = "alpha.sharding.timebertt.dev/region"
WANTED_ZONE_LABEL: Final = "alpha.sharding.timebertt.dev/zone"
ROTATE_ANNOTATION: Final = "alpha.sharding.timebertt.dev/rotate"
"""On the Secret of the certificates: what is to be replaced, `serving` or `authority`."""

REGION_LABEL: Final = "topology.kubernetes.io/region"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"

EXCLUDED_NAMESPACE: Final = "kube-system"
"""Never sharded, whatever a ring selects; nor is the namespace that the sharder lives in."""

SHARDER_IDENTITY: Final = "shardlease-controller"
"""Holder that the sharder writes into the Lease of a shard it has given up on."""

FIELD_MANAGER: Final = "controllerring-controller"
"""Field manager of webhook configurations: the reference's, so that we replace what it wrote."""

WEBHOOK_NAME: Final = "sharder.sharding.timebertt.dev"
CONTROLLED_WEBHOOK_NAME: Final = f"controlled.{WEBHOOK_NAME}"
"""Of the second webhook of a ring that has an objectSelector and controlled resources."""
WEBHOOK_PATH_PREFIX: Final = "/webhooks/sharder/controllerring/"
VALIDATION_NAME: Final = "controllerrings.sharding.timebertt.dev"
"""Of the ValidatingWebhookConfiguration for ControllerRings, and of the webhook in it."""
VALIDATION_PATH: Final = "/webhooks/validate/controllerring"
METRICS_PATH: Final = "/metrics"
"""Also the nonResourceURL that whoever reads them must be allowed to get."""
APP_LABEL: Final = ("app.kubernetes.io/name", "controller-sharding")

_OWNER_PREFIX: Final = "shard.alpha.sharding.timebertt.dev/"
_DRAIN_PREFIX: Final = "drain.alpha.sharding.timebertt.dev/"
_NEXT_PREFIX: Final = "next.alpha.sharding.timebertt.dev/"
_PIN_PREFIX: Final = "pin.alpha.sharding.timebertt.dev/"

_RESOURCE: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")

# Kubernetes' grammar of label values: at most 63 characters, empty is allowed there but not here,
# for an empty owner is no owner (apimachinery, util/validation.IsValidLabelValue).
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class GroupResource(NamedTuple):
    """A kind of object as a ControllerRing names it; `group` is empty for the core group."""

    group: str
    resource: str

    @override
    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class ObjectRef(NamedTuple):
    """Which object of a resource; `namespace` is empty for cluster-scoped ones."""

    namespace: str
    name: str

    @override
    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def owner_label(ring: RingName) -> str:
    """Return the label that names the shard which owns an object."""
    return _OWNER_PREFIX + ring


def drain_label(ring: RingName) -> str:
    """Return the label that asks the owner to let go of an object; any value counts."""
    return _DRAIN_PREFIX + ring


def next_annotation(ring: RingName) -> str:
    """Return the annotation that names where a draining object goes when it is let go."""
    return _NEXT_PREFIX + ring


def pin_label(ring: RingName) -> str:
    """Return the label that names the shard on which a person wants an object."""
    return _PIN_PREFIX + ring


def webhook_configuration(ring: RingName) -> str:
    """Return the name of the ring's MutatingWebhookConfiguration."""
    return f"controllerring-{ring}"


def webhook_path(ring: RingName, token: str = "") -> str:
    """Return the path at which the webhook answers for `ring`.

    The token stands in front: the reference refuses what stands behind the ring's name.
    """
    return (f"/{token}" if token else "") + WEBHOOK_PATH_PREFIX + ring


def is_label_value(text: str) -> bool:
    """Tell whether `text` may stand as a non-empty label value, hence be a shard's name."""
    return _LABEL_VALUE.fullmatch(text) is not None


def is_resource(resource: GroupResource) -> bool:
    """Tell whether there may be such a resource; wildcards and subresources are none."""
    group, name = resource
    return bool(_RESOURCE.fullmatch(name)) and (not group or bool(_SUBDOMAIN.fullmatch(group)))


def is_label_key(text: str) -> bool:
    """Tell whether `text` may stand as the key of a label.

    Source: apimachinery, util/validation.IsQualifiedName.
    """
    prefix, slash, name = text.rpartition("/")
    has_prefix = len(prefix) <= 253 and _SUBDOMAIN.fullmatch(prefix) is not None
    return is_label_value(name) and (has_prefix or not slash)
