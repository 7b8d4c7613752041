"""Replicas that look after one Secret, and an API server that trusts the CA bundle it gets."""

import asyncio
from datetime import timedelta

from typing_extensions import override

from sharder.controllers.ca_trust import CaTrust, TrustedCas
from sharder.controllers.certificates import Certificates
from sharder.core.api.cluster import Secret, WebhookConfiguration
from sharder.core.api.meta import Json, Resource
from sharder.core.names import APP_LABEL, RING_LABEL, ROTATE_ANNOTATION, GroupResource, ObjectRef
from sharder.sdk.testing.fake_clock import FakeClock
from sharder.tls.bundle import CertificateBundle
from sharder.tls.facts import facts_of, issued_by
from sharder.tls.rotation import Phase, Policy, Request, phase_of
from tests.support.fake_store import FakeStore
from tests.support.fakes import WEBHOOKS

REF = ObjectRef("sharding-system", "webhook-certificates")
RING = ObjectRef("", "controllerring-demo")
POLICY = Policy(
    names=("webhook.sharding-system.svc", "127.0.0.1"),
    validity=timedelta(days=90),
    rotate_before=timedelta(days=30),
)
OVERLAP = timedelta(seconds=60)
SECRETS = Resource(id=GroupResource("", "secrets"), version="v1", kind="Secret", namespaced=True)


class Slow(FakeStore[Secret]):
    """Lets others run before each answer, so that all look before one writes."""

    @override
    async def get(self, ref: ObjectRef) -> Secret:
        try:
            return await super().get(ref)
        finally:
            await asyncio.sleep(0)


def trusts(trust: TrustedCas, bundle: CertificateBundle) -> bool:
    """Return whether all webhooks accept the serving certificate."""
    issuers = {facts.fingerprint for facts in issued_by(bundle.certificate, facts_of(bundle.ca))}
    return all(not issuers.isdisjoint(trusted) for trusted in trust)


class Scene:
    """One Secret, and the webhook configuration of one ring once it was published."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.secrets = Slow(Secret, SECRETS)
        self.configurations = FakeStore(WebhookConfiguration, WEBHOOKS)

    def replica(
        self, *, leads: bool = False, names: tuple[str, ...] = tuple(POLICY.names)
    ) -> Certificates:
        return Certificates(
            secrets=self.secrets,
            watched=self.secrets.selecting("", fields=f"metadata.name={REF.name}"),
            ca_trust=CaTrust(self.configurations, self.clock),
            ref=REF,
            policy=Policy(
                names=names, validity=POLICY.validity, rotate_before=POLICY.rotate_before
            ),
            overlap=OVERLAP,
            leads=lambda: leads,
            clock=self.clock,
        )

    async def publish(self, bundle: CertificateBundle, ring: ObjectRef = RING) -> None:
        """Let the API server trust the authorities of a bundle, as the leader does."""
        await self.trust(bundle.to_secret_data()["ca.crt"], ring)

    async def trust(self, ca_bundle: str, ring: ObjectRef = RING) -> None:
        body: dict[str, Json] = {
            "metadata": {
                "name": ring.name,
                "labels": {APP_LABEL[0]: APP_LABEL[1], RING_LABEL: "demo"},
            },
            "webhooks": [{"clientConfig": {"caBundle": ca_bundle}}],
        }
        if ring in {c.metadata.ref for c in (await self.configurations.list()).items}:
            await self.configurations.patch(ring, body)
        else:
            await self.configurations.create("", body)

    async def trusted(self) -> TrustedCas:
        """Return whom the API server trusts."""
        trust = await CaTrust(self.configurations, self.clock).trusted_cas()
        assert trust is not None
        return trust

    async def kept(self) -> CertificateBundle:
        """Return what stands in the Secret."""
        return CertificateBundle.from_secret_data((await self.secrets.get(REF)).data or {})

    async def put(self, bundle: CertificateBundle) -> None:
        """Write a bundle as a stranger does."""
        data: dict[str, Json] = {"ca-next.key": None, **bundle.to_secret_data()}
        await self.secrets.patch(REF, {"data": data})

    async def spoil(self, *keys: str) -> None:
        await self.secrets.patch(REF, {"data": dict.fromkeys(keys)})

    async def delete(self) -> None:
        meta = (await self.secrets.get(REF)).metadata
        await self.secrets.delete(REF, uid=meta.uid, resource_version=meta.resource_version)

    async def ask(self, what: Request | str | None) -> None:
        """Ask for a rotation, as a person does."""
        await self.secrets.patch(REF, {"metadata": {"annotations": {ROTATE_ANNOTATION: what}}})

    async def asked(self) -> str:
        return (await self.secrets.get(REF)).metadata.annotation(ROTATE_ANNOTATION)

    async def phase(self) -> Phase:
        return phase_of(await self.kept())
