"""Facts about `sharder.runtime.error_log`."""

import pytest

from sharder.core.errors import ApiError, Forbidden, Unavailable
from sharder.runtime.error_log import ErrorLog

DOWN = Unavailable("connection refused")


def test_the_same_error_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    trouble = ErrorLog("watch rings", lambda _: None)

    for error in (DOWN, Unavailable("connection refused"), Forbidden("no"), DOWN):
        trouble.failed(error)

    warned = [record.__dict__["error"] for record in caplog.records]
    assert warned == ["connection refused", "no", "connection refused"]


def test_each_failure_is_told_and_its_end_once() -> None:
    told: list[ApiError | None] = []
    trouble = ErrorLog("watch rings", told.append)

    trouble.over()
    trouble.failed(DOWN)
    trouble.failed(DOWN)
    trouble.over()
    trouble.over()

    assert told == [DOWN, DOWN, None]
