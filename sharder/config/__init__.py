"""The settings of the service: file and flags, merged into one frozen value."""

from sharder.config.load import Loaded, load
from sharder.config.settings import (
    CertificateMode,
    LeaderElection,
    LogFormat,
    LogLevel,
    Settings,
    certificate_mode,
)

__all__ = [
    "CertificateMode",
    "LeaderElection",
    "Loaded",
    "LogFormat",
    "LogLevel",
    "Settings",
    "certificate_mode",
    "load",
]
