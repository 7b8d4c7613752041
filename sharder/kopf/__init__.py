"""Shard an operator that is written with kopf: `join` makes each replica a shard of a ring.

import kopf
import sharder.kopf

sharder.kopf.join(ring="my-ring", resources=["secrets"])

@kopf.on.create("secrets")
@kopf.on.update("secrets")
@kopf.on.resume("secrets")
async def list_keys(...): ...
"""

try:
    from sharder.kopf.shard import join
except ModuleNotFoundError as error:
    if error.name != "kopf":
        raise
    raise ImportError("sharder.kopf needs kopf: install 'sharder[kopf]'") from None

__all__ = ["join"]
