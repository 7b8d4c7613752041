"""Try whether the API server enforces the fence of a ring."""

from sharder.core.errors import Rejected
from sharder.core.fence.policy import PROBE_MANAGER
from sharder.core.fence.probe import NoFence, Proof, proof_of
from sharder.core.names import API_GROUP, API_VERSION, RingName
from sharder.kube.client import MERGE_PATCH, Client


class KubeFences:
    """The fences of the cluster's rings."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def prove(self, ring: RingName) -> Proof:
        """Return what a dry run of an empty patch of the ring's status shows.

        Raises:
            ApiError: there was no answer, or the right to patch the status is missing.
        """
        path = f"/apis/{API_GROUP}/{API_VERSION}/controllerrings/{ring}/status"
        query = {"dryRun": "All", "fieldManager": PROBE_MANAGER}
        try:
            await self._client.request(
                "PATCH", path, query=query, body={}, content_type=MERGE_PATCH
            )
        except Rejected as error:
            return proof_of(str(error), ring)
        return NoFence()
