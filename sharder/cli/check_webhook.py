"""Test whether the API server calls the webhook, and which certificate it trusts."""

import base64
import binascii
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final

from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.diagnosis.finding import Unread
from sharder.core.diagnosis.installation import NO_RESOURCES, probe_of, relabelled
from sharder.core.errors import ApiError
from sharder.core.names import drain_label, owner_label
from sharder.core.ring.build import roles_of
from sharder.core.ring.snapshot import Role
from sharder.kube.objects import KubeObjects
from sharder.tls.facts import facts_of, issued_by

_ADVICE: Final = (
    "run the check with the right to create ConfigMaps or Secrets of the ring, or to patch its "
    "objects: it writes nothing"
)


async def answer(
    objects: KubeObjects, ring: ControllerRing, namespaces: Iterable[str]
) -> tuple[str, PartialObject]:
    """Try to create an object in the first namespace, else to update an object with an owner.

    Both requests are dry runs.  Return the request in words, and the object in the response.

    Raises:
        Unread: neither is possible.
    """
    if not roles_of(ring):
        raise Unread(*NO_RESOURCES)
    spaces, reasons = sorted(namespaces), list[str]()
    if not spaces:
        raise Unread("the ring selects no namespace", "label a namespace, or correct the ring")
    for attempt in (_by_create, _by_update):
        try:
            return await attempt(objects, ring, spaces)
        except (ApiError, Unread) as error:
            reasons.append(str(error))
    raise Unread("; ".join(filter(None, reasons)), _ADVICE)


async def _by_create(
    objects: KubeObjects, ring: ControllerRing, namespaces: Sequence[str]
) -> tuple[str, PartialObject]:
    """Return the answer to a create; an `Unread` says that none is possible."""
    probe = probe_of(ring)
    if probe is None:
        raise Unread("", _ADVICE)
    served = await objects.find(probe[0])
    obj = await objects.of(served).dry_run().create(namespaces[0], probe[1])
    return f"a dry-run create of a {served.kind} in {namespaces[0]}", obj


async def _by_update(
    objects: KubeObjects, ring: ControllerRing, namespaces: Sequence[str]
) -> tuple[str, PartialObject]:
    """Return the answer to an update; an `Unread` says why none is possible.

    The object has an owner and does not drain: then the webhook always restores its owner label.
    """
    labels = f"{owner_label(ring.name)},!{drain_label(ring.name)}"
    for resource, role in sorted(roles_of(ring).items()):
        if role is Role.CONTROLLED:
            continue
        served = await objects.find(resource)
        async for obj in objects.of(served).stream(labels):
            if not served.namespaced or obj.metadata.namespace in namespaces:
                ref = obj.metadata.ref
                after = await objects.of(served).dry_run().patch(ref, relabelled(ring))
                return f"a dry-run update of the {served.kind} {ref}", after
    raise Unread("the ring has no object with an owner to try an update on", _ADVICE)


@cache
def trusts(ca_bundle: str, certificate: bytes) -> bool:
    """Return whether an authority of the caBundle issued a certificate of the chain."""
    try:
        authorities = facts_of(base64.b64decode(ca_bundle, validate=True))
    except (binascii.Error, ValueError):
        return False
    return any(issued_by(each.pem, authorities) for each in facts_of(certificate))
