"""The names of the protocol: labels, annotations, and names of rings and shards.

Every fixed name on the wire is defined here and nowhere else (docs/labels.md).
"""

import re
from typing import Final, NamedTuple, NewType

from typing_extensions import override

RingName = NewType("RingName", str)
ShardName = NewType("ShardName", str)

NO_RING: Final = RingName("")
"""The ring of a log line, Event or metric that concerns all rings."""

API_GROUP: Final = "sharding.timebertt.dev"
API_VERSION: Final = "v1alpha1"
CONFIG_API_VERSION: Final = "config.sharding.timebertt.dev/v1alpha1"

SYSTEM_NAMESPACE: Final = "sharding-system"
RING_LABEL: Final = "alpha.sharding.timebertt.dev/controllerring"
STATE_LABEL: Final = "alpha.sharding.timebertt.dev/state"
REVISION_LABEL: Final = "alpha.sharding.timebertt.dev/revision"
RECALLED: Final = "recalled"
"""The value of the drain label if the object's shard was gone when the label was written."""
POOL_ANNOTATION: Final = "alpha.sharding.timebertt.dev/pool"
CAPACITY_ANNOTATION: Final = "alpha.sharding.timebertt.dev/capacity"
WEIGHT_ANNOTATION: Final = "alpha.sharding.timebertt.dev/weight"
CORDONED_ANNOTATION: Final = "alpha.sharding.timebertt.dev/cordoned"
EVACUATE_ANNOTATION: Final = "alpha.sharding.timebertt.dev/evacuate"
EVACUATE_ON_STOP: Final = "on-stop"
"""The value that a stopping shard writes to its own Lease; people write `true`."""
PROBLEM_ANNOTATION: Final = "alpha.sharding.timebertt.dev/problem"
"""Why the shard cannot work; it stays on the Lease that the shard gave back."""
WATCHES_ANNOTATION: Final = "alpha.sharding.timebertt.dev/watches"
"""What a controller behind a proxy watches besides the resources of its ring."""
POD_UID_ANNOTATION: Final = "alpha.sharding.timebertt.dev/pod-uid"
"""The uid of the pod of a Lease's holder, so that a restarted holder recognizes its own Lease."""
LOAD_ANNOTATION: Final = "alpha.sharding.timebertt.dev/load"
MOVE_COST_ANNOTATION: Final = "alpha.sharding.timebertt.dev/move-cost"
PRIORITY_ANNOTATION: Final = "alpha.sharding.timebertt.dev/priority"
"""Like a Pod's `spec.priority`, which is not part of its metadata; the QoS class likewise."""
QOS_CLASS_ANNOTATION: Final = "alpha.sharding.timebertt.dev/qos-class"
DELETION_COST_ANNOTATION: Final = "controller.kubernetes.io/pod-deletion-cost"
EVICTION_COST_ANNOTATION: Final = "scheduling.koordinator.sh/eviction-cost"
KOORDINATOR_PRIORITY_CLASS_LABEL: Final = "koordinator.sh/priority-class"
KOORDINATOR_QOS_LABEL: Final = "koordinator.sh/qosClass"
POOL_LABEL: Final = "alpha.sharding.timebertt.dev/pool"
"""On an object: it goes only to shards of that pool, and likewise of that region and zone."""
WANTED_REGION_LABEL: Final = "alpha.sharding.timebertt.dev/region"
WANTED_ZONE_LABEL: Final = "alpha.sharding.timebertt.dev/zone"
ROTATE_ANNOTATION: Final = "alpha.sharding.timebertt.dev/rotate"
"""On the Secret of the certificates: what to replace, `serving` or `authority`."""

REGION_LABEL: Final = "topology.kubernetes.io/region"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"

EXCLUDED_NAMESPACE: Final = "kube-system"
"""Never sharded, even if a ring selects it; the sharder's own namespace is not sharded either."""

SHARDER_IDENTITY: Final = "shardlease-controller"
"""The holder that the sharder writes when it takes the Lease of a dead shard."""

FIELD_MANAGER: Final = "controllerring-controller"
"""Field manager of webhook configurations: the reference's, so that we replace its fields."""

WEBHOOK_NAME: Final = "sharder.sharding.timebertt.dev"
"""The webhook for objects without owner label, and the end of the names of the others."""
CREATED_WEBHOOK_NAME: Final = f"created.{WEBHOOK_NAME}"
LABELLED_WEBHOOK_NAME: Final = f"labelled.{WEBHOOK_NAME}"
WEBHOOK_PATH_PREFIX: Final = "/webhooks/sharder/controllerring/"
VALIDATION_NAME: Final = "controllerrings.sharding.timebertt.dev"
"""The ValidatingWebhookConfiguration for ControllerRings, and the webhook in it."""
VALIDATION_PATH: Final = "/webhooks/validate/controllerring"
METRICS_PATH: Final = "/metrics"
"""Also the nonResourceURL that a client needs the right to read."""
APP_LABEL: Final = ("app.kubernetes.io/name", "controller-sharding")

_RESOURCE: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")

# Kubernetes' grammar of label values: at most 63 characters.  Kubernetes also allows an empty
# value; here, an empty owner is no owner (apimachinery, util/validation.IsValidLabelValue).
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class GroupResource(NamedTuple):
    """A resource as a ControllerRing names it; `group` is empty for the core group."""

    group: str
    resource: str

    @override
    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


def parse_resource(text: str) -> GroupResource:
    """Parse the name of a resource, such as `secrets` or `deployments.apps`."""
    resource, _, group = text.partition(".")
    return GroupResource(group, resource)


class ObjectRef(NamedTuple):
    """Namespace and name of an object; `namespace` is empty for cluster-scoped objects."""

    namespace: str
    name: str

    @override
    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def owner_label(ring: RingName) -> str:
    """Return the label that names the shard of an object."""
    return f"shard.alpha.sharding.timebertt.dev/{ring}"


def drain_label(ring: RingName) -> str:
    """Return the label that drains an object, whatever its value: the shard has to release it."""
    return f"drain.alpha.sharding.timebertt.dev/{ring}"


def next_annotation(ring: RingName) -> str:
    """Return the annotation that names the shard to which a draining object goes next."""
    return f"next.alpha.sharding.timebertt.dev/{ring}"


def pin_label(ring: RingName) -> str:
    """Return the label that pins an object to a shard."""
    return f"pin.alpha.sharding.timebertt.dev/{ring}"


def webhook_configuration(ring: RingName) -> str:
    """Return the name of the ring's MutatingWebhookConfiguration."""
    return f"controllerring-{ring}"


def webhook_path(ring: RingName, token: str = "") -> str:
    """Return the path of the webhook for `ring`.

    The token comes first, because the reference rejects anything after the ring's name.
    """
    return (f"/{token}" if token else "") + WEBHOOK_PATH_PREFIX + ring


def is_label_value(text: str) -> bool:
    """Return whether `text` is a valid, non-empty label value, as a shard's name must be."""
    return _LABEL_VALUE.fullmatch(text) is not None


def is_resource(resource: GroupResource) -> bool:
    """Return whether the resource has a valid name; wildcards and subresources are not valid."""
    group, name = resource
    return bool(_RESOURCE.fullmatch(name)) and (not group or bool(_SUBDOMAIN.fullmatch(group)))


def is_subdomain(text: str) -> bool:
    """Return whether `text` is a DNS subdomain, as the name of a pod must be.

    Source: apimachinery, util/validation.IsDNS1123Subdomain.
    """
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Return whether `text` is a valid label key.

    Source: apimachinery, util/validation.IsQualifiedName.
    """
    prefix, slash, name = text.rpartition("/")
    return is_label_value(name) and (is_subdomain(prefix) or not slash)
