"""Whether the API server refuses what a fence forbids."""

from sharder.core.errors import Rejected
from sharder.core.fence import PROBE_MANAGER, NoFence, Proof, proof_of
from sharder.core.names import API_GROUP, API_VERSION, RingName
from sharder.kube.client import MERGE_PATCH, Client


async def prove_fence(client: Client, ring: RingName) -> Proof:
    """Return the proof from a dry run of an empty patch of the ring's status.

    Raises:
        ApiError: there was no answer, or the right to patch the status is missing.
    """
    path = f"/apis/{API_GROUP}/{API_VERSION}/controllerrings/{ring}/status"
    query = {"dryRun": "All", "fieldManager": PROBE_MANAGER}
    try:
        await client.request("PATCH", path, query=query, body={}, content_type=MERGE_PATCH)
    except Rejected as error:
        return proof_of(str(error), ring)
    return NoFence()
