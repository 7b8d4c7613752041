"""What a write changes in an object as JSON.  Pure; the objects are untrusted input."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sharder.core.api.lease import to_the_second
from sharder.core.api.meta import Json
from sharder.shard.objects import Body


def difference(current: Body, wanted: Body, *, replace: Collection[str] = ()) -> Body:
    """Return the merge patch (RFC 7386) that sets the wanted fields, empty if none differs.

    Args:
        current: The whole object.
        wanted: The wanted fields; None removes a field, and lists are compared as a whole.  Of the
            metadata only labels, annotations and finalizers count.
        replace: Fields, such as `data`, whose keys are removed if `wanted` does not name them.
    """
    patch = {
        field: change
        for field, value in wanted.items()
        if field not in {"apiVersion", "kind", "metadata"}
        for change in _change(current.get(field), value, exact=field in replace)
    }
    had, metadata = mapping(current.get("metadata")), mapping(wanted.get("metadata"))
    changes: Body = {
        field: change
        for field in ("labels", "annotations", "finalizers")
        if field in metadata
        for change in _change(had.get(field), metadata[field], exact=False)
    }
    return {**patch, "metadata": changes} if changes else patch


def _change(current: Json, wanted: Json, *, exact: bool) -> tuple[Json, ...]:
    """Return the merge patch of a value as a tuple of one, or () if it does not change."""
    if not isinstance(wanted, Mapping):
        return () if current == wanted else (wanted,)
    had = mapping(current)
    changes = {
        key: change
        for key, value in wanted.items()
        for change in _change(had.get(key), value, exact=False)
    }
    if exact:
        changes |= dict.fromkeys(had.keys() - wanted.keys())
    return (changes,) if changes or not isinstance(current, Mapping | None) else ()


def mapping(value: Json) -> Body:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def with_condition(
    conditions: Json, wanted: Mapping[str, Json], *, now: datetime
) -> Sequence[Json]:
    """Return `status.conditions` with one of them set; equal to `conditions` if nothing differs.

    Entries that are not objects, and further entries of this type, are dropped.
    """
    entries = conditions if isinstance(conditions, list) else []
    known = {str(each.get("type")): each for each in entries if isinstance(each, Mapping)}
    kind = str(wanted["type"])
    before = known.get(kind, {})
    is_same = before.get("status") == wanted["status"]
    since = before.get("lastTransitionTime") if is_same else None
    known[kind] = {**before, **wanted, "lastTransitionTime": since or to_the_second(now)}
    return list(known.values())
