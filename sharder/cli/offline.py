"""`sharder plan --file`: plan from a dump."""

import sys
from pathlib import Path

from sharder.api.lease import parse_time
from sharder.config import Settings
from sharder.config.entry_points import installed
from sharder.errors import ConfigError
from sharder.preview.dump import decode_dump, plan_dump
from sharder.preview.report import PlanReport
from sharder.preview.supposition import Supposition


def plan(file: Path, now: str | None, what_if: Supposition) -> PlanReport:
    """Return the plan for a dump; `-` stands for stdin.

    Raises:
        ConfigError: the file cannot be read or understood, `now` is no time, or what is supposed
            is not possible.
    """
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}; give a dump") from error
    instant = parse_time(now)
    if now is not None and instant is None:
        raise ConfigError(f"--now {now} is no time, give one such as 2026-03-01T12:00:00Z")
    try:
        dump = decode_dump(data)
    except ConfigError as error:
        raise ConfigError(f"cannot plan from {file}: {error}") from error
    default = Settings().webhook.config.namespace_selector
    return plan_dump(
        dump, instant or dump.newest_renewal(), default, what_if=what_if, custom=installed()
    )
