"""Keep a quota in every labelled Namespace, and one more for each of its QuotaGrants."""

from collections.abc import Mapping
from typing import NoReturn

import msgspec

from sharder.sdk import (
    PermanentError,
    Request,
    Settings,
    Shard,
    configure_logs,
    generation_changed,
)

SIZE = "quota.example.com/size"
QUOTAS = {
    "small": {"pods": 10, "secrets": 20},
    "large": {"pods": 100, "secrets": 200},
}
GRANTS = "quotagrants.quota.example.com"


class Spec(msgspec.Struct):
    """The limits that a grant adds to the quota of its Namespace."""

    limits: dict[str, int]


class QuotaGrant(msgspec.Struct):
    """The fields of a QuotaGrant that this controller reads."""

    spec: Spec


async def keep_quota(request: Request) -> None:
    """Keep the ConfigMap `quota` in a Namespace, and report it in the status of the Namespace."""
    if request.metadata.deletion_timestamp:
        return  # the ConfigMap is deleted with its Namespace
    size = request.metadata.label(SIZE)
    if size not in QUOTAS:
        await refuse(request, "QuotaSet", f"size {size!r} is not one of {', '.join(QUOTAS)}")
    metadata = {"name": "quota", "namespace": request.ref.name}
    await request.ensure(
        {"kind": "ConfigMap", "metadata": metadata, "data": as_text(QUOTAS[size])},
        replace=["data"],
    )
    await request.set_condition("QuotaSet", status=True, reason="Kept", message=f"size {size}")


async def keep_grant(request: Request) -> None:
    """Keep the ConfigMap `quota-NAME` of a grant, and report it in the status of the grant."""
    limits = (await request.get(QuotaGrant)).spec.limits
    if unknown := sorted(limits.keys() - QUOTAS["small"].keys()):
        await refuse(request, "Granted", f"there is no quota of {', '.join(unknown)}")
    is_new = not await request.children("configmaps")
    metadata = {"name": f"quota-{request.ref.name}"}
    await request.ensure(
        {"kind": "ConfigMap", "metadata": metadata, "data": as_text(limits)}, replace=["data"]
    )
    await request.set_condition("Granted", status=True, reason="Kept")
    if is_new:
        await request.event("Granted", "the quota of the Namespace is larger now")


async def end_grant(request: Request) -> float | None:
    """Delete the ConfigMap of a grant; when it is gone, the grant is gone too."""
    metadata = {"name": f"quota-{request.ref.name}"}
    is_gone = await request.delete({"kind": "ConfigMap", "metadata": metadata})
    return None if is_gone else 5


async def refuse(request: Request, condition: str, why: str) -> NoReturn:
    """Report why an object cannot be handled, and wait until it changes."""
    await request.set_condition(condition, status=False, reason="Refused", message=why)
    await request.event("Refused", why, warning=True)
    raise PermanentError(why)


def as_text(limits: Mapping[str, int]) -> dict[str, str]:
    """Return the limits as the data of a ConfigMap, whose values are texts."""
    return {resource: str(limit) for resource, limit in limits.items()}


def make_shard(settings: Settings | None = None) -> Shard:
    """Return the shard of this replica; its settings default to its environment."""
    shard = Shard(ring="namespace-quota", settings=settings)
    shard.reconciler(
        "namespaces",
        keep_quota,
        owns=["configmaps"],
        cache=["namespaces", "configmaps"],
        when=lambda old, new: old.label(SIZE) != new.label(SIZE),
    )
    shard.reconciler(
        GRANTS,
        keep_grant,
        owns=["configmaps"],
        cache=[GRANTS, "configmaps"],
        when=generation_changed,
        on_delete=end_grant,
        finalizer="quota.example.com/grant",
    )
    shard.needs("patch", "namespaces/status")
    shard.needs("patch", "quotagrants/status.quota.example.com")
    shard.needs("delete", "configmaps")
    return shard


if __name__ == "__main__":
    configure_logs(form="json")
    make_shard().run()
