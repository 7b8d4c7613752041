"""Completions of a command line that are read from a cluster."""

from collections.abc import Iterable, Sequence
from typing import Final

from sharder.cli.cluster_view import Cluster
from sharder.cli.words import is_named
from sharder.core.api.meta import Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import NotFound
from sharder.core.names import RING_LABEL, ObjectRef
from sharder.core.ring.build import roles_of

MAX_NAMES: Final = 500
"""Limit on the completions: one page of a list; more names do not help."""


async def rings(cluster: Cluster) -> list[str]:
    """Return the names of all rings."""
    return [ring.name async for ring in cluster.rings.stream()]


async def shards(cluster: Cluster, *, ring: str) -> list[str]:
    """Return the names of all Leases of the ring."""
    leases = cluster.leases.stream(f"{RING_LABEL}={ring}")
    return [lease.metadata.name async for lease in leases]


async def objects(
    cluster: Cluster, *, ring: str, words: Sequence[str], namespace: str, incomplete: str
) -> list[str]:
    """Return the complete words that can follow `words`; not all begin with `incomplete`."""
    served = await _served(cluster, await cluster.rings.get(ObjectRef("", ring)))
    if words and "/" not in words[0]:
        return await _names(cluster, _first(served, words[0]), namespace, incomplete)
    kind, slash, start = incomplete.partition("/")
    if not slash:
        ending = "/" if words else ""
        return [f"{resource.id}{ending}" for resource in served]
    names = await _names(cluster, _first(served, kind), namespace, start)
    return [f"{kind}/{name}" for name in names]


async def _served(cluster: Cluster, ring: ControllerRing) -> list[Resource]:
    served = list[Resource]()
    for resource in sorted(roles_of(ring)):
        try:
            served.append(await cluster.objects.find(resource))
        except NotFound:
            continue
    return served


def _first(served: Iterable[Resource], word: str) -> Resource | None:
    return next((resource for resource in served if is_named(resource, word)), None)


async def _names(
    cluster: Cluster, resource: Resource | None, namespace: str, start: str
) -> list[str]:
    """Return names of objects that begin with `start`.

    Without a namespace, a name is `NAMESPACE/NAME`, or `NAME` in the current namespace, because
    `--namespace` can still follow.
    """
    if resource is None:
        return []
    within, slash, _ = start.partition("/")
    prefixed = resource.namespaced and not namespace
    names = list[str]()
    where = within if prefixed and slash else namespace
    async for obj in cluster.objects.of(resource, namespace=where).stream():
        ref = obj.metadata.ref
        is_current = ref.namespace == cluster.namespace or not cluster.namespace
        if prefixed and str(ref).startswith(start):
            names.append(str(ref))
        elif ref.name.startswith(start) and (not prefixed or is_current):
            names.append(ref.name)
        if len(names) == MAX_NAMES:
            break
    return names
