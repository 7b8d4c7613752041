"""The result of a check, and facts that could not be read."""

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from sharder.core.names import RingName


class Level(StrEnum):
    """How severe a finding is."""

    OK = "OK"
    WARN = "WARN"
    """It works, but something is missing, or the check could not be made."""
    FAIL = "FAIL"
    """Something does not work."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check, which is shown as one line."""

    level: Level
    check: str
    """What was checked, in one word."""
    ring: RingName | None = None
    """The ring; None for a check of the whole installation."""
    message: str
    advice: str | None = None
    """What to do next; None if there is nothing to do."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A fact that could not be read, with the reason and what to do about it."""

    why: str
    advice: str = "run the check with the right to read this"


def ok(check: str, message: str, *, ring: RingName | None = None) -> Finding:
    """Return a finding that everything is in order."""
    return Finding(level=Level.OK, check=check, ring=ring, message=message)


def warn(check: str, message: str, advice: str, *, ring: RingName | None = None) -> Finding:
    """Return a finding that something needs attention."""
    return Finding(level=Level.WARN, check=check, ring=ring, message=message, advice=advice)


def fail(check: str, message: str, advice: str, *, ring: RingName | None = None) -> Finding:
    """Return a finding that something does not work."""
    return Finding(level=Level.FAIL, check=check, ring=ring, message=message, advice=advice)


def unknown(check: str, unread: Unread, *, ring: RingName | None = None) -> Finding:
    """Return a finding that the check could not be made."""
    return warn(check, f"not checked: {unread.why}", unread.advice, ring=ring)
