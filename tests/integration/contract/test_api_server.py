"""The API server in memory answers as a real one does."""

from collections.abc import AsyncIterator

import pytest

from hack.control_plane import ControlPlane
from sharder.kube.client import Client
from sharder.sdk.testing import custom
from sharder.sdk.testing.requests import Call
from tests.integration.contract.admission_sequences import ADMISSION_SEQUENCES
from tests.integration.contract.conftest import CRDS, crd
from tests.integration.contract.sequences import SEQUENCES, Sequence
from tests.support.answers import Play
from tests.support.eventually import eventually
from tests.support.two_servers import InMemory, Real

SITES = custom("sites.contract.example.com", kind="Site")


@pytest.fixture
async def real(
    client: Client, control_plane: ControlPlane, own_namespace: str
) -> AsyncIterator[Real]:
    """A real API server that serves sites."""
    server = Real(client, control_plane, own_namespace)
    await server.send(
        Call(method="POST", path=CRDS, body=crd("sites", SITES.id.group, SITES.kind))
    )
    path = f"/apis/contract.example.com/v1/namespaces/{own_namespace}/sites"

    async def is_served() -> bool:
        return (await Play(server).get(path)).get("kind") == "SiteList"

    await eventually(is_served, within=60)
    async with server.serving_hooks():
        yield server


@pytest.fixture
async def in_memory() -> InMemory:
    server = InMemory([SITES])
    await server.set_up()
    return server


@pytest.mark.parametrize(
    "sequence", [*SEQUENCES, *ADMISSION_SEQUENCES], ids=lambda sequence: sequence.__name__
)
async def test_both_servers_answer_equally(
    sequence: Sequence, in_memory: InMemory, real: Real
) -> None:
    ours, theirs = Play(in_memory), Play(real)

    await sequence(theirs)
    await sequence(ours)

    for (what, told), (_, expected) in zip(ours.answers(), theirs.answers(), strict=True):
        assert {what: told} == {what: expected}
