"""The sharder uses all the rights that it has, and needs no others: the audit log shows it.

Last of all integration tests, these judge everything that the others have made the running
sharder do.  They make it do all of its work once themselves, so that they can be run alone.
"""

import asyncio
import json
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final, TypeAlias

import msgspec

from hack.playground import SYSTEM
from sharder.core.api.lease import format_time
from sharder.core.api.meta import Json, PartialObject, Resource
from sharder.core.errors import Forbidden
from sharder.core.leases.state import ORPHANED_AFTER
from sharder.core.names import EVACUATE_ANNOTATION, SHARDER_IDENTITY, webhook_configuration
from sharder.kube.client import connect
from sharder.kube.objects import KubeObjects
from sharder.kube.typed_stores import LEASES, MUTATING, NAMESPACES, SECRETS
from tests.support.audit import Audit, Right, exercised, granted, is_too_wide
from tests.support.eventually import eventually
from tests.support.scene import CONTROLLERS, LABEL, TENANTS, Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, CONTENT, PLANETS, PODS, WIDGETS, WITHIN

ACCOUNT: Final = "sharder"
CERTIFICATES: Final = "sharder-certificates"
RBAC: Final = "rbac.authorization.k8s.io"

Objects: TypeAlias = list[tuple[Resource, PartialObject]]

MAIN: Final = (CONFIGMAPS, SECRETS, PODS, NAMESPACES, WIDGETS, PLANETS)
"""All that the session's sharder may shard out."""

OF_ALL_CLIENTS: Final = {
    # Who it is, for its own writes must not be undone (the API server's system:basic-user).
    Right("create", "authentication.k8s.io", "selfsubjectreviews"),
    # In which version a ring's resources are served, and as which kind (system:discovery).
    Right("get", "", "/api/v1"),
    Right("get", "", "/apis/*"),
}
"""Used and not granted: every authenticated client has these rights."""

FINALIZERS: Final = Right("update", "sharding.timebertt.dev", "controllerrings/finalizers")
WITHOUT_REQUEST: Final = {
    # Admission asks for it when a ring's webhook configuration is applied, where a plugin is on
    # as it is here.  That leaves no line in the log; the last test shows that it is needed.
    FINALIZERS,
}
"""Granted, and seen in no request."""


async def test_objects_of_every_resource_move(service: Service) -> None:
    async with service.scene(*MAIN, shards="a") as scene:
        objects = await create_everywhere(scene)

        # Again and again: a pass that runs at the same time, or that follows because the API
        # server rejected the first lists, moves objects without reading each of them.
        for source, target in pairwise("abcde"):
            await evacuate(scene, source, objects, to=target)
            await scene.until_ready("True")


async def create_everywhere(scene: Scene) -> Objects:
    """Create two objects of each resource, in two namespaces if it is namespaced."""
    other = f"{scene.namespace}-too"
    await scene.open_namespace(other, ring=scene.ring)
    return [
        (
            of,
            await scene.author.create(
                of, f"{scene.ring}-in-{namespace}", namespace=namespace if of.namespaced else "",
                content=CONTENT.get(of.kind), labels={LABEL: scene.ring},
            ),
        )
        for of in MAIN
        for namespace in (scene.namespace, other)
    ]  # fmt: skip


async def evacuate(scene: Scene, letter: str, objects: Objects, *, to: str) -> None:
    """Have all objects moved from one shard to another, and wait until they are there."""
    await scene.join(to)
    annotations: Json = {EVACUATE_ANNOTATION: "true"}
    await scene.describe_lease(letter, {"metadata": {"annotations": annotations}})
    # None is released before all drain: the pass would find it, and assign it at once.
    draining = [(of, await scene.until_draining(of, obj)) for of, obj in objects]
    for of, obj in draining:
        await scene.acknowledge(of, obj)
    for of, obj in draining:
        await scene.until_owned(of, obj, scene.shard(to))


async def test_leases_are_cared_for_in_every_namespace(service: Service) -> None:
    async with service.scene(CONFIGMAPS, shards="") as scene:
        await asyncio.gather(*(care_in(service, scene, each) for each in (CONTROLLERS, TENANTS)))


async def care_in(service: Service, scene: Scene, namespace: str) -> None:
    """Create Leases of all kinds in a namespace, and wait until the sharder has seen to them."""
    past = format_time(datetime.now(UTC) - timedelta(hours=2))
    silent, left, wrong = (
        f"{scene.ring}-{namespace}-{word}" for word in ("silent", "left", "wrong")
    )
    await scene.lease(silent, namespace, leaseDurationSeconds=1)
    await scene.lease(
        left,
        namespace,
        holderIdentity="",
        leaseDurationSeconds=1,
        acquireTime=past,
        renewTime=past,
    )
    await scene.lease(wrong, namespace, renewTime=None)

    async def cared_for() -> None:
        taken = await scene.admin.lease(silent, namespace)
        assert taken.spec.holder_identity == SHARDER_IDENTITY
        found = await scene.admin.find(LEASES, namespace)
        assert left not in {each.metadata.name for each in found}
        about = f"involvedObject.name={wrong}"
        told = await asyncio.to_thread(
            service.plane.kubectl, "get", "events", "-n", namespace, "--field-selector", about
        )
        assert "InvalidLease" in told

    await eventually(cared_for, within=WITHIN + ORPHANED_AFTER.total_seconds())
    for name in (silent, wrong):
        await scene.admin.delete(LEASES, name, namespace=namespace)


async def test_a_deleted_secret_is_made_anew(service: Service) -> None:
    await asyncio.to_thread(service.plane.kubectl, "delete", "secret", CERTIFICATES, "-n", SYSTEM)

    async def is_back() -> None:
        get = ("get", "secret", CERTIFICATES, "-n", SYSTEM, "-o", r"jsonpath={.data.tls\.crt}")
        assert await asyncio.to_thread(service.plane.kubectl, *get)

    await eventually(is_back, within=WITHIN)


async def test_the_metrics_are_scraped(service: Service) -> None:
    assert await service.metrics()


def by_the_chart(rights: Iterable[Right]) -> set[Right]:
    """Return the rights without those to the groups of single tests, which grant them."""
    return {each for each in rights if not each.group.endswith(".example.org")}


async def test_the_rights_used_are_the_rights_granted(service: Service, audit: Audit) -> None:
    async def are_equal() -> None:
        rights = by_the_chart(granted(service.plane, SYSTEM, ACCOUNT))
        used = {exercised(each, rights | OF_ALL_CLIENTS) for each in by_the_chart(audit.asked())}
        assert used == (rights - WITHOUT_REQUEST) | OF_ALL_CLIENTS

    await eventually(are_equal, within=WITHIN)


async def test_no_right_is_wider_than_it_is_used(service: Service, audit: Audit) -> None:
    async def are_needed() -> None:
        rights, asked = by_the_chart(granted(service.plane, SYSTEM, ACCOUNT)), audit.asked()
        for right in rights:
            needs = [each for each in asked if exercised(each, rights) == right]
            assert not is_too_wide(right, needs), right

    await eventually(are_needed, within=WITHIN)


async def test_no_request_is_refused(service: Service, audit: Audit) -> None:
    assert audit.refused() == set()


async def test_without_the_right_that_no_request_shows_a_ring_owns_no_webhook(
    service: Service,
) -> None:
    user = f"sharder-{uuid.uuid4().hex[:8]}"
    kubeconfig = await asyncio.to_thread(service.plane.kubeconfig, user)
    client = await connect(str(kubeconfig))
    configurations = KubeObjects(client).of(MUTATING)

    async def apply(body: Json) -> None:
        await configurations.apply(msgspec.convert(body, PartialObject).metadata.ref, body)

    async def is_refused(body: Json) -> bool:
        try:
            await apply(body)
        except Forbidden as refusal:
            return "cannot set blockOwnerDeletion" in str(refusal)
        return False

    try:
        async with service.scene(CONFIGMAPS, shards="a") as scene:
            body = await asyncio.to_thread(another_webhook, service, scene, user)
            await asyncio.to_thread(bind_copy, service, user, without=FINALIZERS)
            await eventually(lambda: is_refused(body), within=WITHIN)

            await asyncio.to_thread(bind_copy, service, user)

            await eventually(lambda: apply(body), within=WITHIN)
            await scene.admin.delete(MUTATING, user)
    finally:
        await client.close()


def another_webhook(service: Service, scene: Scene, name: str) -> Json:
    """Return a webhook configuration whose owner is the scene's ring, as it is of its own."""
    own = ("mutatingwebhookconfiguration", webhook_configuration(scene.ring))
    path = "jsonpath={.metadata.ownerReferences}"
    owners = json.loads(service.plane.kubectl("get", *own, "-o", path))
    return {
        "apiVersion": f"{MUTATING.id.group}/{MUTATING.version}",
        "kind": MUTATING.kind,
        "metadata": {"name": name, "ownerReferences": owners},
    }


def bind_copy(service: Service, user: str, *, without: Right | None = None) -> None:
    """Give a user what the sharder's ClusterRole gives, but for the rules with this right."""
    role = json.loads(service.plane.kubectl("get", "clusterrole", ACCOUNT, "-o", "json"))
    left = [
        rule for rule in role["rules"] if not without or without.resource not in rule["resources"]
    ]
    subject = {"apiGroup": RBAC, "kind": "User", "name": user}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": user}
    bound = {"roleRef": reference, "subjects": [subject]}
    for kind, content in (("ClusterRole", {"rules": left}), ("ClusterRoleBinding", bound)):
        manifest = {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": {"name": user}}
        service.plane.apply(json.dumps(manifest | content))
