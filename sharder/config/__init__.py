"""The settings of the service: file, environment and flags, merged into one frozen value."""

from sharder.config.certificates import CertificateMode
from sharder.config.load import Loaded, environment_names, load
from sharder.config.settings import (
    LeaderElection,
    LogFormat,
    LogLevel,
    Part,
    Settings,
    certificate_mode,
)
from sharder.core.addresses import Address, address_of

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
