"""`sharder run`: read the settings, set up logging, start the service."""

import gc
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from sharder.config.load import Loaded, load
from sharder.core.errors import ConfigError
from sharder.logs import configure_logs

_log = logging.getLogger(__name__)


def start(config: Path | None, *, flags: Mapping[str, str], strict: bool) -> None:
    """Run the service until a signal stops it.

    Raises:
        ConfigError: the settings are invalid.
        SharderError: the service cannot continue.
    """
    loaded = load_file(config, os.environ, flags, strict=strict)
    logs = loaded.settings.logging
    configure_logs(level=logs.level, form=logs.format)
    for sentence in loaded.unknown:
        _log.warning("ignoring unknown setting", extra={"why": sentence})
    gc.disable()  # until the service has synced; see sharder.runtime.memory
    import uvloop  # noqa: PLC0415 - so that invalid settings are reported without delay

    from sharder.cli.serve.service import serve  # noqa: PLC0415 - for the same reason

    uvloop.run(serve(loaded.settings))


def load_file(
    config: Path | None,
    environment: Mapping[str, str],
    flags: Mapping[str, str],
    *,
    strict: bool = False,
) -> Loaded:
    """Return the settings from a file, if given, from variables and from flags.

    Raises:
        ConfigError: the file cannot be read, or a setting is invalid.
    """
    try:
        data = b"" if config is None else config.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {config}: {error.strerror}") from error
    try:
        return load(data, environment, flags, strict=strict)
    except ConfigError as error:
        where = "" if config is None else f" in {config}, variables or flags"
        raise ConfigError(f"invalid settings{where}: {error}") from error
