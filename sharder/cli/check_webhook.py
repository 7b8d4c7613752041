"""Test whether the API server calls the webhook, and which certificate it trusts."""

import base64
import binascii
from collections.abc import Iterable
from typing import Final

from sharder.core.api.cluster import WebhookConfiguration
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.api.ring import ControllerRing
from sharder.core.diagnosis.finding import Unread
from sharder.core.diagnosis.installation import (
    Answer,
    Configuration,
    answer_of,
    probe_of,
    relabelled,
)
from sharder.core.errors import ApiError
from sharder.core.names import drain_label, owner_label
from sharder.core.ring.build import roles_of
from sharder.core.ring.snapshot import Role
from sharder.kube.client import Client
from sharder.kube.objects import KubeObjects
from sharder.tls.bundle import CertificateBundle
from sharder.tls.facts import facts_of, issued_by

_ADVICE: Final = (
    "run the check with the right to create ConfigMaps or Secrets of the ring, or to patch its "
    "objects: it writes nothing"
)


def configuration_of(
    name: str, stored: Iterable[WebhookConfiguration], *, bundle: CertificateBundle | Unread
) -> Configuration | None:
    """Return whether the named configuration has a CA bundle, and trusts the certificate."""
    found = next((each for each in stored if each.metadata.name == name), None)
    if found is None:
        return None
    bundles = [webhook.client_config.ca_bundle for webhook in found.webhooks or ()]
    return Configuration(
        has_ca=bool(bundles) and all(bundles),
        trusts=bundle
        if isinstance(bundle, Unread)
        else bool(bundles) and all(_trusts(each, bundle.certificate) for each in bundles),
    )


async def answer(
    client: Client, ring: ControllerRing, namespaces: Iterable[str]
) -> Answer | Unread:
    """Try to create an object in the first namespace, else to update an object with an owner.

    Both requests are dry runs.
    """
    spaces = sorted(namespaces)
    if not spaces:
        return Unread("the ring selects no namespace", "label a namespace, or correct the ring")
    created = await _by_create(client, ring, spaces[0])
    if isinstance(created, Answer):
        return created
    updated = await _by_update(client, ring, frozenset(spaces))
    if isinstance(updated, Answer):
        return updated
    return Unread("; ".join(filter(None, (created, updated))), _ADVICE)


async def _by_create(client: Client, ring: ControllerRing, namespace: str) -> Answer | str:
    """Return the answer to a create, or the reason why there is none, which can be empty."""
    probe = probe_of(ring)
    if probe is None:
        return ""
    resource, body = probe
    try:
        objects = KubeObjects(client)
        served = await objects.find(resource)
        obj = await objects.of(served).dry_run().create(namespace, body)
    except ApiError as error:
        return str(error)
    return answer_of(ring, f"a dry-run create of a {served.kind} in {namespace}", obj)


async def _by_update(
    client: Client, ring: ControllerRing, namespaces: frozenset[str]
) -> Answer | str:
    """Return the answer to an update, or the reason why there is none."""
    objects = KubeObjects(client)
    main = (each for each, role in sorted(roles_of(ring).items()) if role is not Role.CONTROLLED)
    try:
        for resource in main:
            served = await objects.find(resource)
            owned = await _owned(objects, served, ring, namespaces)
            if owned is not None:
                body, ref = relabelled(ring), owned.metadata.ref
                obj = await objects.of(served).dry_run().patch(ref, body)
                return answer_of(ring, f"a dry-run update of the {served.kind} {ref}", obj)
    except ApiError as error:
        return str(error)
    return "the ring has no object with an owner to try an update on"


async def _owned(
    objects: KubeObjects, served: Resource, ring: ControllerRing, namespaces: frozenset[str]
) -> PartialObject | None:
    """Return an owned object that does not drain: the webhook always restores its owner label."""
    labels = f"{owner_label(ring.name)},!{drain_label(ring.name)}"
    async for obj in objects.of(served, labels).stream():
        if not served.namespaced or obj.metadata.namespace in namespaces:
            return obj
    return None


def _trusts(ca_bundle: str, certificate: bytes) -> bool:
    """Return whether an authority of the bundle issued a certificate of the chain."""
    try:
        authorities = facts_of(base64.b64decode(ca_bundle, validate=True))
    except (binascii.Error, ValueError):
        return False
    return any(issued_by(each.pem, authorities) for each in facts_of(certificate))
