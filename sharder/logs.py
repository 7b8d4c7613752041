"""How log records are written: one record, one line.

A record is a constant message with fields from `extra`.  Names of objects can contain anything,
including line breaks, so everything is escaped and no client can forge a log line.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TypeAlias

from typing_extensions import override

from sharder.core.errors import ConfigError

Scalar: TypeAlias = str | int | float | None

QUIET_SECONDS = 10.0
"""Seconds between two lines with the same message."""

MAX_REMEMBERED = 1_000
"""Limit on the remembered messages; the client loggers have few."""

CLIENT_LOGGERS = frozenset({"asyncio", "webhook.server"})
"""Loggers of connection errors: any client can open connections and so cause messages."""

_OWN_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {
    "asctime",
    "message",
    "taskName",
}


def configure_logs(*, level: str = "info", form: str = "text") -> None:
    """Write the records of the process to standard error, one per line, with their fields.

    Replaces an earlier configuration. Values are escaped: none can forge a line.

    Args:
        level: The least severe records that are written, by a name of `logging`.
        form: `text` for `TIME LEVEL message key=value …`, or `json`.

    Raises:
        ConfigError: the level or the form is unknown.
    """
    formatters = {"text": TextFormatter, "json": JsonFormatter}
    if form not in formatters:
        raise ConfigError(f"log form {form!r} is neither text nor json")
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(RateLimit())
    handler.setFormatter(formatters[form]())
    try:
        logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    except ValueError as error:
        raise ConfigError(f"log level {level!r} is unknown") from error


class RateLimit(logging.Filter):
    """Passes each message that any client can cause only once in `QUIET_SECONDS`.

    The next record of this message that passes has the number of dropped records in `repeated`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[tuple[str, str], tuple[float, int]] = {}

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if record.name not in CLIENT_LOGGERS:
            return True
        key = (record.name, str(record.msg))
        passed, repeated = self._passed.get(key, (-QUIET_SECONDS, 0))
        if 0 <= record.created - passed < QUIET_SECONDS:
            self._passed[key] = (passed, repeated + 1)
            return False
        if len(self._passed) >= MAX_REMEMBERED:
            self._passed.clear()
        self._passed[key] = (record.created, 0)
        if repeated:
            record.repeated = repeated
        return True


class TextFormatter(logging.Formatter):
    """`TIME LEVEL message key=value …`; an exception follows on indented lines."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        fields = [f"{key}={_bare(str(value))}" for key, value in _fields(record).items()]
        message = _escaped(record.getMessage())
        line = " ".join([_time(record), f"{record.levelname:<7}", message, *fields])
        trace = [f"    {_escaped(text)}" for text in _trace(record).splitlines()]
        return "\n".join([line, *trace])


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message, fields, and an exception if any."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        content = _fields(record) | {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        trace = _trace(record)
        return json.dumps(content | {"trace": trace} if trace else content)


def _fields(record: logging.LogRecord) -> dict[str, Scalar]:
    return {
        key: value if isinstance(value, int | float) or value is None else str(value)
        for key, value in vars(record).items()
        if key not in _OWN_ATTRIBUTES
    }


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _trace(record: logging.LogRecord) -> str:
    if not record.exc_info:  # None, or False, which asyncio passes
        return ""
    return logging.Formatter().formatException(record.exc_info)


def _bare(text: str) -> str:
    """Return a plain word unchanged, any other text in quotes."""
    is_plain = text.isprintable() and text and not set(text) & set(' "=\\')
    return text if is_plain else json.dumps(text)


def _escaped(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)[1:-1]
