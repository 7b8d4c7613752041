"""Builds without one control each, and the test of the attack that must fail on each of them.

tests/long/test_attacks_bite.py tries them.  Attacks that are not here get through in a test of
their own where the control is switched off (tests/attacks/README.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Damage:
    """A text that is replaced in a file."""

    file: str
    control: str
    without: str
    test: str


_LEASES: Final = "tests/unit/core/leases"
_APP: Final = "tests/unit/webhook/test_app.py"

DAMAGES: Final[Mapping[str, Damage]] = {
    "A3": Damage(
        "sharder/core/leases/state.py",
        "if not is_label_value(lease.metadata.name):",
        "if not lease.metadata.name:",
        f"{_LEASES}/test_validity.py::test_a_lease_whose_name_is_no_label_value_makes_no_shard",
    ),
    "A4": Damage(
        "sharder/core/leases/state.py",
        'if not is_complete(lease):\n        return "acquireTime',
        'if not lease:\n        return "acquireTime',
        f"{_LEASES}/test_validity.py::test_a_held_lease_without_its_times_makes_no_shard",
    ),
    "A5": Damage(
        "sharder/core/leases/state.py",
        "if not MIN_DURATION_SECONDS <= seconds <= MAX_DURATION_SECONDS:",
        "if seconds > 2**31:",
        f"{_LEASES}/test_validity.py::test_a_held_lease_with_a_duration_out_of_range_makes_no_shard",
    ),
    "A6": Damage(
        "sharder/core/leases/state.py",
        "        if self.is_silent(monotonic):\n            return ShardState.UNCERTAIN\n",
        "",
        f"{_LEASES}/test_observed.py::"
        "test_a_held_lease_that_is_watched_is_judged_by_its_silence_whatever_its_times_say",
    ),
    "A8": Damage(
        "sharder/core/leases/validity.py",
        "found = _SURPLUS if shards > MAX_LEASES else None",
        "found = None",
        f"{_LEASES}/test_validity.py::test_only_the_oldest_leases_count",
    ),
    "A12": Damage(
        "webhook/connection.py",
        "if len(self._body) > route.max_bytes:",
        "if len(self._body) < 0:",
        f"{_APP}::test_a_body_that_turns_out_too_large_is_refused",
    ),
    "A13": Damage(
        "webhook/review_codec.py",
        "except RecursionError:",
        "except ZeroDivisionError:",
        f"{_APP}::test_an_update_with_deep_nesting_cannot_change_the_owner",
    ),
    "A14": Damage(
        "webhook/admission.py",
        "if request.problem:",
        "if not request:",
        f"{_APP}::test_metadata_that_cannot_be_read_is_allowed_with_a_warning",
    ),
    "A15": Damage(
        "sharder/logs.py",
        "return text if text.isprintable() else json.dumps(text)[1:-1]",
        "return text",
        "tests/unit/test_logs.py::test_text_is_one_line_whatever_a_record_holds",
    ),
    "A16": Damage(
        "sharder/controllers/ring_gauges.py",
        "for lease in snapshot.members.validity.valid:",
        "for lease in snapshot.members.validity.leases:",
        "tests/replica/test_leases.py::"
        "test_leases_that_make_no_shard_are_reported_once_and_never_written",
    ),
    "A17": Damage(
        "webhook/admission.py",
        "if trusted and tally is not None",
        "if tally is not None",
        f"{_APP}::test_a_request_without_the_token_is_answered_and_reserves_no_room",
    ),
    "A18": Damage(
        "webhook/connection.py",
        "if now - self._began > REQUEST_SECONDS:",
        "if now < self._began:",
        "tests/unit/webhook/test_connection.py::"
        "test_a_request_that_does_not_become_complete_is_refused",
    ),
    "A21": Damage(
        "sharder/core/ring/build.py",
        "return EXCLUDED_GROUPS.get(resource.group) or EXCLUDED_RESOURCES.get(resource)",
        "return EXCLUDED_RESOURCES.get(resource)",
        "tests/unit/core/validation/test_validation.py::"
        "test_what_is_never_sharded_is_refused_with_the_reason",
    ),
    "A23": Damage(
        "sharder/kube/reviews.py",
        "return HTTPStatus.OK if is_allowed else HTTPStatus.FORBIDDEN",
        "return HTTPStatus.OK",
        "tests/unit/kube/test_reviews.py::test_the_whole_user_is_asked_about",
    ),
    "A24": Damage(
        "hack/requirements.lock",
        "--hash=sha256:",
        "--hash=md5:",
        "tests/unit/test_lock.py::test_a_lock_has_nothing_but_versions_with_sha256_hashes",
    ),
}
"""By the number of the attack in tests/attacks/README.md."""
