"""Conditions in an object's status, by the Kubernetes API conventions.  Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from sharder.core.api.lease import to_the_second
from sharder.core.api.meta import Json


def with_condition(
    conditions: Json,
    kind: str,
    *,
    status: bool | None,
    reason: str,
    message: str,
    generation: int,
    now: datetime,
) -> Sequence[Json]:
    """Return the conditions with one of them set; equal to `conditions` if nothing differs.

    lastTransitionTime changes only if the condition's status changes.  The order and the other
    conditions stay.  Entries that are not objects, and further entries of this type, are dropped:
    the status is untrusted input.

    Args:
        conditions: The value of `status.conditions`, None if there is none.
        kind: The type of the condition to set.
        status: Whether the condition is true; None means Unknown.
        reason: The reason, as one CamelCase word.
        message: The reason, as a sentence.
        generation: The observed generation of the object, 0 if it has none.
        now: The time of the transition, if there is one.
    """
    entries = conditions if isinstance(conditions, list) else []
    known = [each for each in entries if isinstance(each, Mapping)]
    before = next((each for each in known if each.get("type") == kind), {})
    text = "Unknown" if status is None else str(status)
    since = before.get("lastTransitionTime") if before.get("status") == text else None
    wanted: Mapping[str, Json] = {
        **before,
        "type": kind,
        "status": text,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since or to_the_second(now),
        **({"observedGeneration": generation} if generation else {}),
    }
    if not before:
        return [*known, wanted]
    return [
        wanted if each is before else each
        for each in known
        if each is before or each.get("type") != kind
    ]
