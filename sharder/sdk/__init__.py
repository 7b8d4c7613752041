"""Write a sharded controller: one function for each main resource, and a `Shard` that runs them.

from sharder.sdk import Request, Shard

async def reconcile(request: Request) -> None:
    secret = await request.get()
    ...

shard = Shard(ring="my-ring")
shard.reconciler("secrets", reconcile)
shard.run()
"""

from importlib import import_module
from typing import Final
from warnings import warn

from sharder.core.errors import ConfigError, Conflict, NotFound, SharderError
from sharder.core.leases.election import LeaseTiming
from sharder.logs import configure_logs
from sharder.sdk.reconciler import PermanentError, generation_changed
from sharder.sdk.request import Request
from sharder.sdk.shard import Shard
from sharder.shard.objects import Document, OwnMeta
from sharder.shard.settings import Settings, local_settings

__all__ = [
    "ConfigError",
    "Conflict",
    "Document",
    "LeaseTiming",
    "NotFound",
    "OwnMeta",
    "PermanentError",
    "Request",
    "Settings",
    "Shard",
    "SharderError",
    "configure_logs",
    "generation_changed",
    "local_settings",
]

_DEPRECATED: Final = {
    "ApiError": ("sharder.core.errors", "SharderError"),
    "InvalidObject": ("sharder.core.errors", "SharderError"),
    "LeaseLost": ("sharder.core.errors", "SharderError"),
    "NotOwned": ("sharder.sdk.reads.owned", "SharderError"),
    "Reconcile": ("sharder.sdk.reconciler", "Callable[[Request], Awaitable[float | None]]"),
}
"""The module and the replacement of each name that goes in the next release."""


def __getattr__(name: str) -> object:
    if name not in _DEPRECATED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, replacement = _DEPRECATED[name]
    warn(f"sharder.sdk.{name} will go: use {replacement}", DeprecationWarning, stacklevel=2)
    return vars(import_module(module))[name]
