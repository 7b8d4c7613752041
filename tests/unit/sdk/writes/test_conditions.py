"""Facts about `sharder.sdk.writes.conditions`: one condition is set, all others stay."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import pytest

from sharder.core.api.meta import Json
from sharder.sdk.writes.conditions import with_condition

EARLIER, NOW = "2026-03-01T12:00:00Z", datetime(2026, 3, 1, 13, tzinfo=UTC)
READY: Mapping[str, Json] = {
    "type": "Ready",
    "status": "True",
    "reason": "Synced",
    "message": "all there",
    "lastTransitionTime": EARLIER,
    "observedGeneration": 1,
}
OTHER: Mapping[str, Json] = {"type": "Other", "status": "False", "of": "another controller"}


def ready(
    conditions: Json, *, holds: bool | None = True, reason: str = "Synced", generation: int = 1
) -> Sequence[Json]:
    return with_condition(
        conditions,
        "Ready",
        status=holds,
        reason=reason,
        message="all there",
        generation=generation,
        now=NOW,
    )


def test_another_reason_or_generation_is_no_transition() -> None:
    assert ready([READY, OTHER], reason="Restored", generation=2) == [
        {**READY, "reason": "Restored", "observedGeneration": 2},
        OTHER,
    ]


@pytest.mark.parametrize(("holds", "status"), [(False, "False"), (None, "Unknown")])
def test_another_status_is_a_transition(holds: bool | None, status: str) -> None:
    assert ready([READY], holds=holds) == [
        {**READY, "status": status, "lastTransitionTime": "2026-03-01T13:00:00Z"}
    ]


@pytest.mark.parametrize("conditions", ["text", 3, {"type": "Ready"}, ["Ready", 7, None]])
def test_what_cannot_be_conditions_is_replaced(conditions: Json) -> None:
    assert ready(conditions) == ready(None)
