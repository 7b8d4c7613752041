"""The program `sharder`, also installed as the kubectl plugin `kubectl shard`."""

# ruff: noqa: PLC0415 - without the extra `cli` the imports fail, and the error says what to do

import sys


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong usage, 130 interrupted."""
    try:
        from sharder.cli.app import main as run
    except ModuleNotFoundError as error:
        sys.exit(f"sharder: {missing(error)}")
    try:
        run()
    except KeyboardInterrupt:  # before a command runs; a running command handles it itself
        sys.exit(130)


def missing(error: ModuleNotFoundError, extra: str = "cli") -> str:
    """Return a message about the extra to install; re-raise for a module of this project."""
    module = (error.name or "").partition(".")[0]
    if module in {"", "sharder", "webhook"}:
        raise error
    return f"{module} is not installed; install the extra: pip install 'sharder[{extra}]'"
