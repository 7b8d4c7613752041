"""Replicas that race for one Secret on a real API server, many times: there is one authority."""

import asyncio
from collections.abc import Mapping

import pytest

from sharder.controllers.ca_trust import CaTrust
from sharder.controllers.certificates import Certificates
from sharder.core.api.cluster import Secret
from sharder.core.api.meta import Json
from sharder.core.errors import NotFound
from sharder.core.names import ObjectRef
from sharder.kube.client import Client
from sharder.kube.store import KubeStore
from sharder.kube.typed_stores import secrets, webhook_configurations
from sharder.runtime.clock import SystemClock
from sharder.tls.bundle import CertificateBundle
from tests.support.certificates import OVERLAP, POLICY

REPLICAS = 3
BEFORE: Mapping[str, dict[str, Json] | None] = {
    "nothing": None,
    "empty": {},
    "corrupt": {"tls.crt": "bm9uc2Vuc2U=", "ca.crt": "bm9uc2Vuc2U="},
}


class Race:
    """Replicas of one installation; none leads."""

    def __init__(self, client: Client, ref: ObjectRef) -> None:
        self.ref = ref
        self.secrets: KubeStore[Secret] = secrets(client, namespace=ref.namespace)
        self._client = client
        self._runners = [self._replica() for _ in range(REPLICAS)]

    async def prepare(self, data: dict[str, Json] | None) -> None:
        """Let the Secret be as another client has left it."""
        try:
            meta = (await self.secrets.get(self.ref)).metadata
        except NotFound:
            pass
        else:
            version = meta.resource_version
            await self.secrets.delete(self.ref, uid=meta.uid, resource_version=version)
        if data is not None:
            body: Json = {"metadata": {"name": self.ref.name}, "data": data}
            await self.secrets.create(self.ref.namespace, body)

    async def run(self) -> set[CertificateBundle]:
        """Let all look at the same moment, until each has what it serves; return that."""
        first = await asyncio.gather(*(each.ensure() for each in self._runners))
        stored = CertificateBundle.from_secret_data((await self.secrets.get(self.ref)).data or {})
        return {*first, stored}

    def _replica(self) -> Certificates:
        clock = SystemClock()
        return Certificates(
            secrets=self.secrets,
            watched=self.secrets,
            ca_trust=CaTrust(webhook_configurations(self._client), clock),
            ref=self.ref,
            policy=POLICY,
            overlap=OVERLAP,
            leads=lambda: False,
            clock=clock,
        )


@pytest.mark.parametrize("many", [15, pytest.param(50, marks=pytest.mark.long)])
@pytest.mark.parametrize("before", BEFORE)
async def test_replicas_that_start_and_repair_together_have_one_authority(
    client: Client, own_namespace: str, before: str, many: int
) -> None:
    """All race at once, each for a Secret of its own."""
    races = [Race(client, ObjectRef(own_namespace, f"race-{n}")) for n in range(many)]

    async with asyncio.TaskGroup() as group:
        for race in races:
            group.create_task(race.prepare(BEFORE[before]))
    started = await asyncio.gather(*(race.run() for race in races))
    async with asyncio.TaskGroup() as group:
        for race in races:
            group.create_task(race.prepare(BEFORE[before]))
    repaired = await asyncio.gather(*(race.run() for race in races))

    assert [len(bundles) for bundles in started] == [1] * many
    assert repaired == started
    assert len(set.union(*started)) == many
