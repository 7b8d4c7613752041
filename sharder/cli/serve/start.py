"""`sharder run`: read the settings, set up logging, start the service.

File descriptors: every connection takes one, of strangers and of our own calls alike.
"""

import logging
import os
import resource
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sharder.config import Loaded, Part, load
from sharder.core.errors import ConfigError, SharderError
from sharder.logs import configure

_log = logging.getLogger(__name__)


def start(
    config: Path | None, *, flags: Mapping[str, str], only: Part | None, strict: bool
) -> None:
    """Run the service until it is told to stop.

    Raises:
        ConfigError: the settings are wrong.
        SharderError: it cannot go on.
    """
    loaded = load_file(config, os.environ, flags, strict=strict)
    logging_settings = loaded.settings.logging
    configure(logging_settings.level, logging_settings.format.value, sys.stderr)
    for sentence in loaded.unknown:
        _log.warning("unknown setting", extra={"why": sentence})
    if loaded.meaningless:
        _log.info("settings without effect", extra={"why": ", ".join(loaded.meaningless)})
    import uvloop  # noqa: PLC0415 - wrong settings are told at once

    from sharder.cli.serve.service import serve  # noqa: PLC0415

    try:
        uvloop.run(serve(loaded.settings, only))
    except ExceptionGroup as group:
        ours, others = group.split(SharderError)
        if ours is None or others is not None:
            raise
        raise first_of(ours) from group


def load_file(
    config: Path | None,
    environment: Mapping[str, str],
    flags: Mapping[str, str],
    *,
    strict: bool = False,
) -> Loaded:
    """Return the settings with those of a file, if one is given.

    Raises:
        ConfigError: The file cannot be read, or anything in the settings is wrong.
    """
    try:
        data = b"" if config is None else config.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"cannot read {config}: {error.strerror}; give a SharderConfig"
        ) from error
    try:
        return load(data, environment, flags, strict=strict)
    except ConfigError as error:
        where = "the settings are wrong" if config is None else f"{config} or what overrides it"
        raise ConfigError(f"{where}: {error}") from error


def first_of(group: BaseExceptionGroup[SharderError]) -> SharderError:
    """Return the first error in a group, which may hold groups."""
    error = group.exceptions[0]
    return first_of(error) if isinstance(error, BaseExceptionGroup) else error


def raise_limit() -> int:
    """Raise the limit of this process as far as it may; return it.

    Container runtimes often begin with 1,024, for the sake of programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems allow less than they say
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return soft


def connections_of(wanted: int, limit: int) -> int:
    """Return how many connections a port may have: at most a fourth of all descriptors."""
    unlimited = limit == resource.RLIM_INFINITY
    return wanted if unlimited else max(1, min(wanted, limit // 4))
