"""`sharder version`: the versions of the sharder and of Kubernetes in a cluster."""

from typing import Final

import msgspec

from sharder import __version__
from sharder.cli.reports import VersionReport
from sharder.core.errors import ApiError
from sharder.core.names import GroupResource
from sharder.kube.client import Client
from sharder.kube.errors import understand
from sharder.kube.objects import KubeObjects
from sharder.ports import Objects

_DEPLOYMENTS: Final = GroupResource("apps", "deployments")
_OURS: Final = "app.kubernetes.io/name=sharder"
_VERSION_LABEL: Final = "app.kubernetes.io/version"
"""The chart sets this label, and the label in `_OURS`."""


class _Server(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str


async def of_cluster(client: Client, *, namespace: str) -> VersionReport:
    """Return all versions; the sharder's come from its Deployments in the namespace.

    Raises:
        ApiError: the API server does not return its version.
    """
    path = "/version"
    server = understand(await client.request("GET", path), _Server, path)
    versions, problem = await installed(KubeObjects(client), namespace)
    return VersionReport(
        client_version=__version__,
        sharder_versions=versions,
        server_version=server.git_version,
        problem=problem,
    )


async def installed(objects: Objects, namespace: str) -> tuple[tuple[str, ...], str | None]:
    """Return the versions of the installed sharders, and the reason if they are unknown."""
    try:
        deployments = objects.of(await objects.find(_DEPLOYMENTS), _OURS, namespace=namespace)
        labels = [each.metadata.label(_VERSION_LABEL) async for each in deployments.stream()]
    except ApiError as error:
        return (), str(error)
    if not labels:
        return (), f"no Deployment in {namespace} has the label {_OURS}"
    return tuple(sorted({label or "unknown" for label in labels})), None
