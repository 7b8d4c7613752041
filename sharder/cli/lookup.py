"""Find what the arguments of a command name: an object of a ring, or a shard's Lease."""

from sharder.cli.cluster_view import Cluster
from sharder.core.api.lease import Lease
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ConfigError, NotFound
from sharder.core.leases.state import is_held
from sharder.core.names import GroupResource, ObjectRef, RingName, is_label_value
from sharder.core.ring.snapshot import RingSnapshot


def ring_named(text: str) -> RingName:
    """Return the name if it is valid for a ring.

    Raises:
        ConfigError: it is not.
    """
    if not is_label_value(text):
        raise ConfigError(f"{text!r} is not a valid name of a ControllerRing")
    return RingName(text)


async def find(
    cluster: Cluster, snapshot: RingSnapshot, resource: str, name: str
) -> tuple[Resource, PartialObject]:
    """Return the object of a ring that `deployments.apps` and `default/web` name.

    Raises:
        ConfigError: the ring has no such resource, or there is no such object.
    """
    found = await cluster.objects.find(_resource_in(snapshot, resource))
    ref = _ref_of(found, name)
    try:
        return found, await cluster.objects.of(found).get(ref)
    except NotFound as error:
        raise ConfigError(f"{found.id} {ref} not found; check the name") from error


def lease_of(snapshot: RingSnapshot, shard: str) -> Lease:
    """Return the Lease of a shard of the ring; if several have its name, the held one.

    Raises:
        ConfigError: there is none, or more than one is held.
    """
    roster = snapshot.members.validity
    if shard in roster.duplicate_names:
        raise ConfigError(f"ring {snapshot.name}: {roster.complaint}")
    named = [lease for lease in roster.leases if lease.metadata.name == shard]
    if not named:
        known = ", ".join(sorted({lease.metadata.name for lease in roster.leases})) or "none"
        raise ConfigError(f"ring {snapshot.name} has no shard {shard}; its shards: {known}")
    return max(named, key=is_held)


def _resource_in(snapshot: RingSnapshot, text: str) -> GroupResource:
    name, _, group = text.partition(".")
    resource = GroupResource(group, name)
    if resource not in snapshot.roles:
        known = ", ".join(sorted(map(str, snapshot.roles)))
        raise ConfigError(f"ring {snapshot.name} has no resource {text}; its resources: {known}")
    return resource


def _ref_of(resource: Resource, text: str) -> ObjectRef:
    namespace, slash, name = text.partition("/")
    if bool(slash) != resource.namespaced or (slash and not (namespace and name)):
        form = "NAMESPACE/NAME" if resource.namespaced else "NAME, they are cluster-scoped"
        raise ConfigError(f"{text} is not a name of {resource.id}; use {form}")
    return ObjectRef(namespace, name) if slash else ObjectRef("", text)
