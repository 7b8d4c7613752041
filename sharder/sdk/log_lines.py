"""Log records of a shard as lines that show its ring, shard and object."""

import sys

from sharder.core.errors import ConfigError
from sharder.logs import Format, configure


def configure_logs(*, level: str = "info", form: str = "text") -> None:
    """Write all records of the process to standard error, one per line, with their fields.

    Replaces what was configured before.  Values are escaped, so that no name of an object can
    forge a line.

    Args:
        level: The least severe records that are written, by a name of `logging`.
        form: `text` for `TIME LEVEL message key=value …`, or `json`.

    Raises:
        ConfigError: the level or the form is unknown.
    """
    forms: dict[str, Format] = {"text": "text", "json": "json"}
    if form not in forms:
        raise ConfigError(f"log form {form!r} is neither text nor json")
    try:
        configure(level, forms[form], sys.stderr)
    except ValueError as error:
        raise ConfigError(f"log level {level!r} is not a level") from error
