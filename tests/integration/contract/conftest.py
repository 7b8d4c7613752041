"""A client with all rights, and a namespace of the test's own."""

import uuid
from collections.abc import AsyncIterator

import pytest

from hack.control_plane import ControlPlane
from sharder.kube.client import Client, connect
from sharder.kube.typed_stores import namespaces


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    client = await connect(str(control_plane.admin_kubeconfig))
    yield client
    await client.close()


@pytest.fixture
async def own_namespace(client: Client) -> str:
    name = f"contract-{uuid.uuid4().hex[:12]}"
    await namespaces(client).create("", {"metadata": {"name": name}})
    return name
