"""Write a sharded controller: a function for each resource, and `Shard` around them.

from sharder.sdk import Request, Shard

async def reconcile(request: Request) -> None:
    secret = await request.get()
    ...

shard = Shard(ring="my-ring")
shard.reconciler("secrets", reconcile)
shard.run()
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
from sharder.runtime.backoff import Backoff
from sharder.sdk.documents import Document
from sharder.sdk.handlers import OnDelete, Reconcile
from sharder.sdk.leader import Leadership, LeaderTask
from sharder.sdk.log_lines import configure_logs
from sharder.sdk.metadata import OwnMeta
from sharder.sdk.outcome import PermanentError, Requeue
from sharder.sdk.owned import NotOwned
from sharder.sdk.predicates import (
    Predicate,
    annotations_changed,
    any_of,
    generation_changed,
    labels_changed,
)
from sharder.sdk.request import Request
from sharder.sdk.settings import Settings, local_settings
from sharder.sdk.shard import Shard

__all__ = [
    "ApiError",
    "Backoff",
    "ConfigError",
    "Conflict",
    "Document",
    "InvalidObject",
    "LeaderTask",
    "Leadership",
    "LeaseLost",
    "LeaseTiming",
    "NotFound",
    "NotOwned",
    "OnDelete",
    "OwnMeta",
    "PermanentError",
    "Predicate",
    "Reconcile",
    "Request",
    "Requeue",
    "Settings",
    "Shard",
    "SharderError",
    "annotations_changed",
    "any_of",
    "configure_logs",
    "generation_changed",
    "labels_changed",
    "local_settings",
]
