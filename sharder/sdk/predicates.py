"""Predicates and selectors: which changes need a reconcile, and which objects are reconciled.

An object that is new to the shard, or is being deleted, is always reconciled.  A predicate only
skips reconciles after other changes, so each reconcile must still look at the whole object.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from sharder.shard.objects import OwnMeta

Predicate: TypeAlias = Callable[[OwnMeta, OwnMeta], bool]
"""Returns whether a change, from the first state to the second, needs a reconcile."""

Selector: TypeAlias = Callable[[OwnMeta], bool]
"""Returns whether the object with this metadata is to be reconciled."""

_log = logging.getLogger(__name__)


def generation_changed(old: OwnMeta, new: OwnMeta) -> bool:
    """Return whether the spec changed; always True for resources without a generation."""
    return new.generation == 0 or old.generation != new.generation


def labels_changed(*keys: str) -> Predicate:
    """Return a predicate for changes of these labels; without `keys`, of any label."""
    return lambda old, new: _differ(old.labels, new.labels, keys)


def annotations_changed(*keys: str) -> Predicate:
    """Return a predicate for changes of these annotations; without `keys`, of any annotation."""
    return lambda old, new: _differ(old.annotations, new.annotations, keys)


def any_of(*predicates: Predicate) -> Predicate:
    """Return a predicate that is True if any of `predicates` is."""
    return lambda old, new: any(predicate(old, new) for predicate in predicates)


def any_change(_old: OwnMeta, _new: OwnMeta) -> bool:
    """Reconcile after every change: the default."""
    return True


def every_object(_: OwnMeta) -> bool:
    """Reconcile every object: the default."""
    return True


def selection_changed(selects: Selector) -> Predicate:
    """Return a predicate that is True if an object becomes selected, or ceases to be."""
    return lambda old, new: bool(selects(old)) is not bool(selects(new))


def safe(predicate: Predicate) -> Predicate:
    """Return a predicate that logs an error of `predicate`, and is True then."""

    def needs_reconcile(old: OwnMeta, new: OwnMeta) -> bool:
        try:
            return predicate(old, new)
        except Exception as error:  # noqa: BLE001 - one object must not stop the shard
            # The message repeats the fields: an author's log format might not show them.
            _log.warning(
                "predicate failed, reconciling: %s: %s",
                new.ref,
                repr(error),
                exc_info=True,
                extra={"object": str(new.ref), "error": repr(error)},
            )
            return True

    return needs_reconcile


def _differ(
    old: Mapping[str, str] | None, new: Mapping[str, str] | None, keys: tuple[str, ...]
) -> bool:
    before, after = old or {}, new or {}
    return any(before.get(key) != after.get(key) for key in keys or before.keys() | after.keys())
