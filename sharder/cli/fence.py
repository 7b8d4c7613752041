"""`sharder fence`: print the policy that stops shards of a ring from writing others' objects."""

import sys
from collections.abc import Sequence

import yaml

from sharder.cli.cluster import Cluster
from sharder.cli.cluster_view import view_of
from sharder.core.api.meta import Json
from sharder.core.fence.policy import fence_of
from sharder.core.names import ObjectRef


async def manifests(
    cluster: Cluster, *, ring: str, accounts: Sequence[ObjectRef]
) -> tuple[Json, Json]:
    """Return the policy of a ring and its binding.

    Raises:
        ConfigError: there is no such ring, or it cannot be decoded.
    """
    view = await view_of(cluster, ring)
    return fence_of(view.snapshot.ring, accounts)


def show(documents: Sequence[Json]) -> None:
    """Print the documents as a stream of YAML."""
    sys.stdout.write(yaml.safe_dump_all(documents, sort_keys=False, width=1000))
