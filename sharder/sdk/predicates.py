"""Which changes of an object need a reconcile: functions of its metadata before and after.

An object that is new to the shard, or that is deleted, is reconciled in any case; a predicate
only saves reconciles for other changes.  So each reconcile still has to look at everything.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TypeAlias

from sharder.sdk.reads.objects import OwnMeta

Predicate: TypeAlias = Callable[[OwnMeta, OwnMeta], bool]
"""Returns whether a change, from the first state to the second, needs a reconcile."""

_log = logging.getLogger(__name__)


def generation_changed(old: OwnMeta, new: OwnMeta) -> bool:
    """Return whether the spec changed; True for resources that count no generations."""
    return new.generation == 0 or old.generation != new.generation


def labels_changed(*keys: str) -> Predicate:
    """Return a predicate for changes of these labels, or of any label without `keys`."""
    return lambda old, new: _differ(old.labels, new.labels, keys)


def annotations_changed(*keys: str) -> Predicate:
    """Return a predicate for changes of these annotations, or of any without `keys`."""
    return lambda old, new: _differ(old.annotations, new.annotations, keys)


def any_of(*predicates: Predicate) -> Predicate:
    """Return a predicate for changes that any of these is for."""
    return lambda old, new: any(predicate(old, new) for predicate in predicates)


def any_change(_old: OwnMeta, _new: OwnMeta) -> bool:
    """Return True: the default."""
    return True


def safe(predicate: Predicate) -> Predicate:
    """Return the same predicate, but True when it fails: an author's function can raise."""

    def needs_reconcile(old: OwnMeta, new: OwnMeta) -> bool:
        try:
            return predicate(old, new)
        except Exception as error:  # noqa: BLE001 - one object must not stop the shard
            # Not a constant message: an author's program may show no fields.
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
