"""What has to be installed for the command line, and for the service."""


def missing(error: ModuleNotFoundError, extra: str = "cli") -> str:
    """Return what to install; a missing module of this project is a defect and raised again."""
    module = (error.name or "").partition(".")[0]
    if module in {"", "sharder", "webhook"}:
        raise error
    return f"{module} is not installed; install the extra: pip install 'sharder[{extra}]'"
