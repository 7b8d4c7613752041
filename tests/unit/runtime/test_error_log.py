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


def test_a_text_is_reported_once_until_it_changes_and_beyond_the_limit_of_keys_never() -> None:
    once = Once[str](limit=2)

    said = [once.is_new(key, text) for key, text in ("ax", "ax", "ay", "ax", "bx", "cx", "ay")]
    once.forget("a")

    assert said == [True, False, True, True, True, False, True]
    assert once.is_new("a", "y")
    once.forget("b")
    assert once.is_new("c", "x")
