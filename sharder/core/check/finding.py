"""The result of a check, and what could not be read for one."""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from sharder.core.names import RingName


class Level(StrEnum):
    """How bad a finding is."""

    OK = "OK"
    WARN = "WARN"
    """It works, but with less than it should have, or the check could not be made."""
    FAIL = "FAIL"
    """Something does not work."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check, a line for people."""

    level: Level
    check: str
    """What was checked, one word."""
    ring: RingName | None = None
    """None for checks of the whole installation."""
    message: str
    advice: str | None = None
    """What to do next; None if there is nothing to do."""


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be read, why, and what to do about it."""

    why: str
    advice: str = "run the check with the right to read this"


def ok(check: str, message: str, *, ring: RingName | None = None) -> Finding:
    """Return that all is well."""
    return Finding(level=Level.OK, check=check, ring=ring, message=message)


def warn(check: str, message: str, advice: str, *, ring: RingName | None = None) -> Finding:
    """Return that something needs attention."""
    return Finding(level=Level.WARN, check=check, ring=ring, message=message, advice=advice)


def fail(check: str, message: str, advice: str, *, ring: RingName | None = None) -> Finding:
    """Return that something does not work."""
    return Finding(level=Level.FAIL, check=check, ring=ring, message=message, advice=advice)


def unknown(check: str, unread: Unread, *, ring: RingName | None = None) -> Finding:
    """Return that the check could not be made."""
    return warn(check, f"not checked: {unread.why}", unread.advice, ring=ring)
