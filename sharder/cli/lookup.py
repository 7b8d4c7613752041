"""Find an object of a ring, or a shard's Lease, by the arguments of a command."""

from contextlib import suppress

from sharder.cli.cluster import Cluster
from sharder.cli.words import matches
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Resource
from sharder.core.errors import ConfigError, NotFound
from sharder.core.leases.state import is_held
from sharder.core.names import ObjectRef, parse_resource
from sharder.core.plan.observe import DatedObject
from sharder.core.ring.snapshot import RingSnapshot


async def find(
    cluster: Cluster, snapshot: RingSnapshot, target: str
) -> tuple[Resource, DatedObject]:
    """Return an object of a ring; `target` is such as `deploy/default/web`.

    Raises:
        ConfigError: the ring has no such resource, or there is no such object.
    """
    resource, _, name = target.partition("/")
    served = await _resource_in(cluster, snapshot, resource)
    ref = _ref_of(served, name)
    try:
        return served, await cluster.dated(served).get(ref)
    except NotFound as error:
        raise ConfigError(f"{served.id} {ref} not found; check the name") from error


def lease_of(snapshot: RingSnapshot, shard: str) -> Lease:
    """Return the Lease of a shard of the ring; if several have its name, the held Lease.

    Raises:
        ConfigError: there is no such Lease, or several of its name are held.
    """
    validity = snapshot.members.validity
    if shard in validity.duplicate_names:
        raise ConfigError(f"ring {snapshot.name}: {validity.name_conflict}")
    named = [lease for lease in validity.leases if lease.metadata.name == shard]
    if not named:
        known = ", ".join(sorted({lease.metadata.name for lease in validity.leases})) or "none"
        raise ConfigError(f"ring {snapshot.name} has no shard {shard}; its shards: {known}")
    return max(named, key=is_held)


async def _resource_in(cluster: Cluster, snapshot: RingSnapshot, word: str) -> Resource:
    exact = parse_resource(word)
    if exact in snapshot.roles:
        return await cluster.objects.find(exact)
    named = list[Resource]()
    for resource in snapshot.roles:
        with suppress(NotFound):
            served = await cluster.objects.find(resource)
            named += [served] * matches(served, word)
    if len(named) == 1:
        return named[0]
    known = ", ".join(sorted(map(str, [each.id for each in named] or snapshot.roles)))
    if named:
        raise ConfigError(f"{word} is ambiguous; use one of {known}")
    raise ConfigError(f"ring {snapshot.name} has no resource {word}; its resources: {known}")


def _ref_of(resource: Resource, text: str) -> ObjectRef:
    namespace, slash, name = text.partition("/")
    if bool(slash) != resource.namespaced or (slash and not (namespace and name)):
        form = "NAME with --namespace, or NAMESPACE/NAME"
        if not resource.namespaced:
            form = "NAME, they are cluster-scoped"
        raise ConfigError(f"{text} is not a name of {resource.id}; use {form}")
    return ObjectRef(namespace, name) if slash else ObjectRef("", text)
