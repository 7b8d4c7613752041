"""Try the fence of a ring, and read under which accounts the pods of its shards run."""

from sharder.cli.check_reads import guarded
from sharder.core.api.ring import ControllerRing
from sharder.core.diagnosis.fence import FenceFacts
from sharder.core.diagnosis.finding import Unread
from sharder.core.diagnosis.rights import service_account
from sharder.core.errors import NotFound
from sharder.core.leases.membership import Members
from sharder.core.names import ObjectRef
from sharder.core.status.conditions import condition_of
from sharder.core.status.fence_condition import FENCED
from sharder.kube import diagnosis
from sharder.kube.client import Client
from sharder.kube.fence import KubeFences


async def fence_facts(
    client: Client, ring: ControllerRing, members: Members | Unread
) -> FenceFacts | None:
    """Return what the check of a ring's fence needs, None if the ring never had one."""
    if condition_of(ring.status, FENCED) is None:
        return None
    return FenceFacts(
        proof=await guarded(KubeFences(client).prove(ring.name)),
        users=members if isinstance(members, Unread) else await guarded(_users(client, members)),
    )


async def _users(client: Client, members: Members) -> dict[ObjectRef, str | None]:
    leases = [ObjectRef(members.namespaces[shard], shard) for shard in sorted(members.available)]
    return {ref: await _user(client, ref) for ref in leases}


async def _user(client: Client, ref: ObjectRef) -> str | None:
    try:
        pod = await diagnosis.pod(client, ref)
    except NotFound:
        return None
    return service_account(ObjectRef(ref.namespace, pod.spec.service_account_name))[0]
