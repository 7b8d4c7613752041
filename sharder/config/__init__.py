"""The settings of the service: file, environment and flags, merged into one frozen value."""

from sharder.config.load import Loaded, environment_names, load
from sharder.config.settings import (
    CertificateMode,
    LeaderElection,
    LogFormat,
    LogLevel,
    Part,
    Settings,
    certificate_mode,
)

__all__ = [
    "CertificateMode",
    "LeaderElection",
    "Loaded",
    "LogFormat",
    "LogLevel",
    "Part",
    "Settings",
    "certificate_mode",
    "environment_names",
    "load",
]
