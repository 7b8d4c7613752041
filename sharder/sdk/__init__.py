"""Write a sharded controller: one function for each main resource, and a `Shard` that runs them.

from sharder.sdk import Request, Shard

async def reconcile(request: Request) -> None:
    secret = await request.get()
    ...

shard = Shard(ring="my-ring")
shard.reconciler("secrets", reconcile)
shard.run()
"""

from sharder.core.api.meta import Json
from sharder.core.errors import (
    ApiError,
    ConfigError,
    Conflict,
    Forbidden,
    InvalidObject,
    LeaseLost,
    NotFound,
    Rejected,
    SharderError,
    Unavailable,
)
from sharder.core.leases.election import LeaseTiming
from sharder.logs import configure_logs
from sharder.runtime.backoff import Backoff
from sharder.sdk.handlers import OnDelete, Reconcile
from sharder.sdk.leader import Leadership, LeaderTask
from sharder.sdk.predicates import (
    Predicate,
    Selector,
    annotations_changed,
    any_of,
    generation_changed,
    labels_changed,
)
from sharder.sdk.reads.owned import NotOwned
from sharder.sdk.request import Request
from sharder.sdk.retries import PermanentError, Requeue
from sharder.sdk.shard import Shard
from sharder.sdk.writes.children import NameTaken
from sharder.shard.objects import Document, OwnMeta
from sharder.shard.settings import Settings, local_settings

__all__ = [
    "ApiError",
    "Backoff",
    "ConfigError",
    "Conflict",
    "Document",
    "Forbidden",
    "InvalidObject",
    "Json",
    "LeaderTask",
    "Leadership",
    "LeaseLost",
    "LeaseTiming",
    "NameTaken",
    "NotFound",
    "NotOwned",
    "OnDelete",
    "OwnMeta",
    "PermanentError",
    "Predicate",
    "Reconcile",
    "Rejected",
    "Request",
    "Requeue",
    "Selector",
    "Settings",
    "Shard",
    "SharderError",
    "Unavailable",
    "annotations_changed",
    "any_of",
    "configure_logs",
    "generation_changed",
    "labels_changed",
    "local_settings",
]
