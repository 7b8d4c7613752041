"""Read what `sharder check` judges of controllers behind proxies: pods, rights and watches."""

from collections.abc import Iterable, Mapping, Sequence

from sharder.cli.cluster import Cluster
from sharder.core.api.cluster import Right
from sharder.core.api.lease import Lease
from sharder.core.api.meta import Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.diagnosis.proxies import Proxied, ProxyPod, proxy_pod
from sharder.core.errors import ApiError, NotFound
from sharder.core.names import WATCHES_ANNOTATION, GroupResource, ObjectRef, parse_resource
from sharder.kube.client import Client
from sharder.kube.objects import KubeObjects
from sharder.kube.reviews import is_allowed
from sharder.kube.typed_stores import RINGS, pods
from sharder.shard.identity import handled_of
from sharder.shard.rights import advice, rights_behind_proxy


async def proxied(cluster: Cluster, ring: ControllerRing, leases: Sequence[Lease]) -> Proxied:
    """Return what the namespaces of a ring's shards show of proxies, and the Leases of these.

    Raises:
        ApiError: there are proxies, and not all about them can be read.
    """
    try:
        found = await _pods(cluster.client, ring, leases)
    except ApiError:
        if any(each.metadata.annotation(WATCHES_ANNOTATION) for each in leases):
            raise
        return Proxied()
    names = {pod.ref for pod in found}
    of_pods = [each for each in leases if each.metadata.ref in names]
    outside = await _outside(cluster.objects, of_pods)
    return Proxied(
        pods=found,
        lacking=await _lacking(cluster.client, ring, found),
        outside=sorted(map(str, outside)),
        tied=sorted(map(str, await _tied(cluster.objects, ring, outside))),
    )


async def _pods(
    client: Client, ring: ControllerRing, leases: Iterable[Lease]
) -> Sequence[ProxyPod]:
    spaces = ring.spec.shard_namespaces or {each.metadata.namespace for each in leases}
    every = [pod for each in sorted(spaces) async for pod in pods(client, each).stream()]
    live = [pod for pod in every if pod.metadata.deletion_timestamp is None]
    return [found for pod in live if (found := proxy_pod(pod, ring.name)) is not None]


async def _lacking(
    client: Client, ring: ControllerRing, found: Iterable[ProxyPod]
) -> Mapping[ObjectRef, str]:
    """Return the rules that a ServiceAccount lacks, by account."""
    lacking: dict[ObjectRef, str] = {}
    for account, ref in {pod.account: pod.ref for pod in found}.items():
        of_ring = Right(verb="get", resource=RINGS.id, name=ring.name)
        rights = (*rights_behind_proxy(handled_of(ring), ref), of_ring)
        missing = [each for each in rights if not await is_allowed(client, each, account)]
        if missing:
            lacking[account] = advice(missing)
    return lacking


async def _outside(
    objects: KubeObjects, leases: Iterable[Lease]
) -> Mapping[GroupResource, Resource]:
    """Return what proxied controllers watch besides the resources of the ring."""
    texts = [each.metadata.annotation(WATCHES_ANNOTATION) for each in leases]
    found: dict[GroupResource, Resource] = {}
    for each in {parse_resource(word) for text in texts for word in text.split(",") if word}:
        try:
            found[each] = await objects.find(each)
        except NotFound:
            continue
    return found


async def _tied(
    objects: KubeObjects, ring: ControllerRing, outside: Mapping[GroupResource, Resource]
) -> set[GroupResource]:
    """Return which of these resources control main objects, or are controlled by them."""
    if not outside:
        return set()
    mains = {each.id: await objects.find(each.id) for each in ring.spec.resources}
    kinds = {(each.id.group, each.kind): each.id for each in (*mains.values(), *outside.values())}
    tied: set[GroupResource] = set()
    for resource in (*mains.values(), *outside.values()):
        async for obj in objects.of(resource).stream():
            parent = obj.metadata.controller
            by = None if parent is None else kinds.get((parent.group, parent.kind))
            if by is not None and (by in mains) != (resource.id in mains):
                tied.add(resource.id if by in mains else by)
    return tied
