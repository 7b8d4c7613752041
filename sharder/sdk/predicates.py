"""Predicates: which changes of an object need a reconcile.

An object that is new to the shard, or begins to be deleted, is always reconciled.  A predicate
only skips reconciles after other changes, so each reconcile must still look at the whole object.
"""

from collections.abc import Callable
from typing import TypeAlias

from sharder.shard.objects import OwnMeta

Predicate: TypeAlias = Callable[[OwnMeta, OwnMeta], bool]
"""Returns whether a change, from the first state to the second, needs a reconcile."""


def generation_changed(old: OwnMeta, new: OwnMeta) -> bool:
    """Return whether the spec changed; always True for resources without a generation."""
    return new.generation == 0 or old.generation != new.generation


def labels_changed(*keys: str) -> Predicate:
    """Return a predicate for changes of these labels; without `keys`, of any label."""

    def changed(old: OwnMeta, new: OwnMeta) -> bool:
        before, after = old.labels or {}, new.labels or {}
        return any(
            before.get(key) != after.get(key) for key in keys or before.keys() | after.keys()
        )

    return changed


def any_change(_old: OwnMeta, _new: OwnMeta) -> bool:
    """Reconcile after every change: the default."""
    return True
