"""The settings of the service: file, environment and flags, merged into one frozen value."""

from sharder.config.load import Loaded, environment_names, load
from sharder.config.settings import (
    Address,
    CertificateMode,
    LeaderElection,
    LogFormat,
    LogLevel,
    Part,
    Settings,
    address_of,
    certificate_mode,
)

__all__ = [
    "Address",
    "CertificateMode",
    "LeaderElection",
    "Loaded",
    "LogFormat",
    "LogLevel",
    "Part",
    "Settings",
    "address_of",
    "certificate_mode",
    "environment_names",
    "load",
]
