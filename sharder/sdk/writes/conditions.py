"""Conditions in an object's status, as Kubernetes' API conventions want them.  Pure."""

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
    """Return the conditions with one set; equal to `conditions` if nothing differs.

    Its lastTransitionTime changes only if its status does.  The order and all other conditions
    stay, except entries that no condition can be: the status is input, and might hold anything.

    Args:
        conditions: The value of `status.conditions`, None if there is none.
        kind: The type of the condition to set.
        status: Whether it holds; None stands for Unknown.
        reason: Why, in one CamelCase word.
        message: Why, in a sentence.
        generation: The object's generation that the condition is about, 0 if it has none.
        now: The time of a transition.
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
