"""One record, one line, whatever names it carries."""

import asyncio
import io
import json
import logging
import re
from collections.abc import Iterator
from contextlib import redirect_stderr
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharder.logs import QUIET_SECONDS, RateLimit, TextFormatter, configure_logs

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (\w+) +(.*)")

log = logging.getLogger("sharder.test_log")


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    yield
    root.handlers, root.level = handlers, level


def written(
    style: Literal["text", "json"], message: str, *, level: str = "info", **fields: object
) -> str:
    stream = io.StringIO()
    with redirect_stderr(stream):
        configure_logs(level=level, form=style)
    log.info(message, extra=fields)
    return stream.getvalue()


def text_of(line: str) -> str:
    found = LINE.fullmatch(line.rstrip("\n"))
    assert found is not None
    return found[2]


def record_with(**fields: object) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": "object moved", "levelname": "INFO", **fields})


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("ns/name", "ns/name"),
        ("grüße", "grüße"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "x"', '"say \\"x\\""'),
        ("a\nb", '"a\\nb"'),
        ("a\u2028b", '"a\\u2028b"'),
        ("\ud800", '"\\ud800"'),
        ("\x1b[31m", '"\\u001b[31m"'),
        (None, "None"),
        (True, "True"),
        (2.5, "2.5"),
    ],
)
def test_text_quotes_what_is_not_one_word(value: str | float | None, shown: str) -> None:
    assert text_of(written("text", "object moved", object=value)) == f"object moved object={shown}"


def test_json_is_an_object_with_the_fields_beside_the_message() -> None:
    line = written("json", "object moved", ring="demo", attempts=3, error=ValueError("no"))

    content = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", content.pop("time"))
    assert content == {
        "level": "info",
        "logger": "sharder.test_log",
        "message": "object moved",
        "ring": "demo",
        "attempts": 3,
        "error": "no",
    }


@given(st.text(), st.text())
def test_text_is_one_line_whatever_a_record_holds(message: str, value: str) -> None:
    line = TextFormatter().format(record_with(msg=message, object=value))

    assert len(line.splitlines()) == 1
    assert line.isprintable()


def test_an_exception_follows_on_indented_lines() -> None:
    stream = io.StringIO()
    with redirect_stderr(stream):
        configure_logs()

    error = RuntimeError("a\n2026-01-01T00:00:00.000Z ERROR forged\rby name")
    log.error("admission failed", exc_info=error, extra={"ring": "demo"})

    first, *rest = stream.getvalue().splitlines()
    assert text_of(first) == "admission failed ring=demo"
    assert rest[0] == "    RuntimeError: a"
    assert all(line.startswith("    ") for line in rest)


@pytest.mark.parametrize("style", ["text", "json"])
def test_an_error_of_the_event_loop_without_an_exception_is_one_line(
    style: Literal["text", "json"],
) -> None:
    stream = io.StringIO()
    with redirect_stderr(stream):
        configure_logs(form=style)
    loop = asyncio.new_event_loop()

    loop.call_exception_handler({"message": "Unclosed client session"})
    loop.close()

    assert stream.getvalue().count("\n") == 1
    assert "Unclosed client session" in stream.getvalue()


def test_what_strangers_cause_is_logged_once_in_seconds_and_counted() -> None:
    limit = RateLimit()

    def passes(at: float, name: str = "webhook.server", message: str = "garbage") -> int | None:
        """How many were kept back before; None if it is kept back itself."""
        record = logging.makeLogRecord({"name": name, "msg": message, "created": at})
        return getattr(record, "repeated", 0) if limit.filter(record) else None

    garbage = [passes(100.0 + n / 1_000) for n in range(5_000)]

    assert garbage == [0] + [None] * 4_999
    assert passes(101.0, message="other") == 0
    assert [passes(101.0, name="sharder.cli.serve.service") for _ in range(3)] == [0] * 3
    assert passes(100.0 + QUIET_SECONDS) == 4_999
    assert passes(100.0 + 2 * QUIET_SECONDS) == 0
    assert passes(50.0) == 0  # the clock was set back
