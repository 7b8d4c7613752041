"""A tenant: a user with the role `edit` in one namespace, and with no other right."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from sharder.core.names import webhook_configuration
from sharder.kube.typed_stores import MUTATING
from tests.support.eventually import eventually
from tests.support.scene import Scene
from tests.support.service import Service
from tests.support.users import WITHIN, User

_RBAC: Final = "rbac.authorization.k8s.io"
_numbers = itertools.count()

T = TypeVar("T")


@asynccontextmanager
async def tenant(service: Service, namespace: str) -> AsyncIterator[User]:
    """Act as a user who may edit in this namespace and do nothing elsewhere."""
    name = f"tenant-{next(_numbers)}"
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        # A controller would aggregate `edit` itself, but none runs.
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "system:aggregate-to-edit"},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": name}],
    }
    await asyncio.to_thread(service.plane.apply, json.dumps(binding))
    kubeconfig = await asyncio.to_thread(service.plane.kubeconfig, name)
    async with service.user(kubeconfig) as user:
        yield user


async def without_webhook(scene: Scene, attack: Callable[[], Awaitable[T]]) -> T:
    """Return what an attack results in that raises AssertionError unless it gets through.

    The sharder restores the configuration of its webhook, so it is deleted before each attempt.
    """

    async def attempt() -> T:
        await scene.admin.delete(MUTATING, webhook_configuration(scene.ring))
        return await attack()

    return await eventually(attempt, within=WITHIN)
