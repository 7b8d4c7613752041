"""Write a sharded controller: one function, and `Shard` around it.

from sharder.sdk import Request, Shard

async def reconcile(request: Request) -> None:
    secret = await request.get()
    ...

Shard(ring="my-ring", resource="secrets", reconcile=reconcile).run()
"""

from sharder.core.errors import (
    ApiError,
    ConfigError,
    Conflict,
    InvalidObject,
    LeaseLost,
    NotFound,
    SharderError,
)
from sharder.core.leases.election import LeaseTiming
from sharder.sdk.owned import NotOwned
from sharder.sdk.request import Document, Request
from sharder.sdk.runner import Reconcile
from sharder.sdk.settings import Settings, local_settings
from sharder.sdk.shard import Shard

__all__ = [
    "ApiError",
    "ConfigError",
    "Conflict",
    "Document",
    "InvalidObject",
    "LeaseLost",
    "LeaseTiming",
    "NotFound",
    "NotOwned",
    "Reconcile",
    "Request",
    "Settings",
    "Shard",
    "SharderError",
    "local_settings",
]
