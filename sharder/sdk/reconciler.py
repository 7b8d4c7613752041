"""A main resource of a shard, its functions, and when they run again.  Pure.

An object that is new to the shard, or begins to be deleted, is always reconciled.  A predicate
only skips reconciles after other changes, so each reconcile must still look at the whole object.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from math import isfinite
from typing import TYPE_CHECKING, TypeAlias

from sharder.core.errors import ConfigError, SharderError
from sharder.core.names import GroupResource, is_label_key
from sharder.shard.objects import OwnMeta

if TYPE_CHECKING:
    from sharder.sdk.request import Request


class PermanentError(SharderError):
    """The object cannot be handled as it is: do not retry until the object changes.

    A change of a child does not count. After a restart, and on its next shard, the object is tried
    once more.
    """


def seconds_of(after: float | timedelta) -> float:
    """Return the delay in seconds; `ValueError` if it is negative or not finite."""
    seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
    if not isfinite(seconds) or seconds < 0:
        raise ValueError(f"the time until the next reconcile must be 0s or more, not {after}")
    return seconds


Reconcile: TypeAlias = Callable[["Request"], Awaitable[float | timedelta | None]]
"""Brings one object into its wanted state; it can run at any time, any number of times.

Returns the delay (seconds or a timedelta) until the next reconcile, or None to wait for a change.
An error requeues the object with back-off.  As `on_delete` it cleans up after one object that is
being deleted, and returns a delay while the clean-up is not finished.
"""


Predicate: TypeAlias = Callable[[OwnMeta, OwnMeta], bool]
"""Returns whether a change, from the first state to the second, needs a reconcile."""


def generation_changed(old: OwnMeta, new: OwnMeta) -> bool:
    """Return whether the spec changed; always True for resources without a generation."""
    return new.generation == 0 or old.generation != new.generation


def any_change(_old: OwnMeta, _new: OwnMeta) -> bool:
    """Reconcile after every change: the default."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciler:
    """How a shard handles one main resource."""

    resource: GroupResource
    owns: tuple[GroupResource, ...] = ()
    reconcile: Reconcile
    on_delete: Reconcile | None = None
    finalizer: str = ""
    """Keeps a deleted object until `on_delete` has returned; empty without `on_delete`."""
    when: Predicate = any_change
    """Which changes of an object need a reconcile."""
    cache: frozenset[GroupResource] = frozenset()
    """Resources whose objects are kept in memory."""

    def check(self) -> None:
        """Raise `ConfigError` unless the reconciler is valid."""
        if bool(self.finalizer) is (self.on_delete is None):
            raise ConfigError(
                "on_delete and finalizer need each other: without the finalizer a deleted object "
                "is gone before on_delete runs"
            )
        if self.finalizer and not ("/" in self.finalizer and is_label_key(self.finalizer)):
            raise ConfigError(
                f"finalizer {self.finalizer!r} must be a domain and a name: example.com/cleanup"
            )
        if unknown := self.cache - {self.resource, *self.owns}:
            raise ConfigError(
                f"`cache` has {', '.join(sorted(map(str, unknown)))}, which is neither "
                f"{self.resource} nor in its `owns`"
            )


def require_apart(reconcilers: Iterable[Reconciler]) -> None:
    """Raise if a resource is handled twice.

    Raises:
        ConfigError: two reconcilers have the same main resource, or a main resource is in the
            `owns` of a reconciler.  A ring places an object either by itself or with its
            controller, so children of a main resource could be on other shards than their parents.
    """
    mains = [each.resource for each in reconcilers]
    for main in mains:
        if mains.count(main) > 1:
            raise ConfigError(f"{main} has two reconcilers: a shard runs one for each resource")
    for each in reconcilers:
        for child in each.owns:
            if child in mains:
                raise ConfigError(
                    f"{child} has a reconciler and is in `owns` of {each.resource}: a ring places "
                    "its objects by themselves, not with their parents; use another resource for "
                    "children"
                )
