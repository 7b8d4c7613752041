"""Facts about `sharder.runtime.error_log`."""

from sharder.core.errors import ApiError, Unavailable
from sharder.runtime.error_log import ErrorLog, Once

DOWN = Unavailable("connection refused")


def test_each_failure_is_reported_and_its_end_once() -> None:
    told: list[ApiError | None] = []
    log = ErrorLog("watch rings", told.append)

    log.over()
    log.failed(DOWN)
    log.failed(DOWN)
    log.over()
    log.over()

    assert told == [DOWN, DOWN, None]


def test_a_text_is_reported_once_until_it_changes_or_is_forgotten() -> None:
    once = Once[str]()

    first = [once.is_new("a", text) for text in ("x", "x", "y", "x")]
    once.forget("a")

    assert first == [True, False, True, True]
    assert once.is_new("a", "x")
    assert once.is_new("b", "x")


def test_beyond_the_limit_only_known_keys_are_reported() -> None:
    once = Once[str](limit=2)

    kept = [once.is_new(key, "x") for key in ("a", "b", "c")]

    assert kept == [True, True, False]
    assert once.is_new("a", "y")
    once.forget("b")
    assert once.is_new("c", "x")
