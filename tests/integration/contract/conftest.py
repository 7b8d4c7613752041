"""A client with all rights, and a namespace of the test's own."""

import uuid
from collections.abc import AsyncIterator

import pytest

from hack.control_plane import ControlPlane
from sharder.core.api.meta import Json
from sharder.kube.client import Client, connect
from sharder.kube.objects import KubeObjects
from sharder.kube.typed_stores import NAMESPACES

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    client = await connect(str(control_plane.admin_kubeconfig))
    yield client
    await client.close()


@pytest.fixture
async def own_namespace(client: Client) -> str:
    name = f"contract-{uuid.uuid4().hex[:12]}"
    await KubeObjects(client).of(NAMESPACES).create("", {"metadata": {"name": name}})
    return name


def crd(plural: str, group: str, kind: str) -> Json:
    """Return the definition of a custom resource with a status, whatever is in it."""
    version: Json = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
        },
    }
