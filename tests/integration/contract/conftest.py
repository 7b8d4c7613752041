"""A client with all rights, and a namespace of the test's own."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sharder.kube.client import Client, connect
from sharder.kube.typed_stores import namespaces


@pytest.fixture
async def client(admin_kubeconfig: Path) -> AsyncIterator[Client]:
    client = await connect(str(admin_kubeconfig))
    yield client
    await client.close()


@pytest.fixture
async def own_namespace(client: Client) -> str:
    name = f"contract-{uuid.uuid4().hex[:12]}"
    await namespaces(client).create("", {"metadata": {"name": name}})
    return name
