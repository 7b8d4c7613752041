"""A finding: something that is wrong or worth knowing, what to do about it, and all together."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial
from typing import Final

import msgspec

from sharder.core.errors import ApiError, SharderError
from sharder.core.names import RingName

_FORBIDDEN: Final = "run the check with the right to read this"


class Level(StrEnum):
    """How severe a finding is; the alerts of the chart have the same two levels."""

    OK = "OK"
    WARN = "WARN"
    """It works, but something is missing, or the check could not be made."""
    FAIL = "FAIL"
    """Something does not work."""


class Finding(msgspec.Struct, frozen=True):
    """The result of one check, which is shown as one line."""

    level: Level
    check: str
    """What was checked, in one word."""
    message: str
    advice: str | None = None
    """What to do next."""
    why: str = ""
    """The cause or a detail; empty if the message says all."""
    run: tuple[str, ...] = ()
    """Commands that show the cause or end the fault, quoted for a shell."""
    ring: RingName | None = None
    """The ring; None for a check of the whole installation."""

    @property
    def said(self) -> str:
        """The finding in one line."""
        message = f"{self.message}: {self.why}" if self.why else self.message
        todo = ": ".join(filter(None, (self.advice, "; ".join(self.run))))
        return f"{message} => {todo}" if todo else message


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of all checks; its JSON is a stable interface (docs/commands.md)."""

    failed: int
    warned: int
    findings: tuple[Finding, ...]


def report(findings: Iterable[Finding]) -> CheckReport:
    """Return the result of all checks, in their order."""
    every = tuple(findings)
    return CheckReport(
        failed=sum(each.level is Level.FAIL for each in every),
        warned=sum(each.level is Level.WARN for each in every),
        findings=every,
    )


class Unread(SharderError):
    """A fact that could not be read, and what to do about that."""

    def __init__(self, why: str, advice: str) -> None:
        super().__init__(why)
        self.advice = advice


ok = partial(Finding, Level.OK)
"""Return a finding that everything is in order, or of something worth knowing."""

warn = partial(Finding, Level.WARN)
"""Return a finding that something needs attention."""

fail = partial(Finding, Level.FAIL)
"""Return a finding that something does not work."""


def unknown(check: str, error: ApiError | Unread) -> Finding:
    """Return a finding that the check could not be made, because a fact was not read."""
    advice = error.advice if isinstance(error, Unread) else _FORBIDDEN
    return warn(check, f"not checked: {error}", advice)


def judged(check: str, judge: Callable[[], Finding | Iterable[Finding]]) -> list[Finding]:
    """Return what `judge` finds, or that it could not read a fact."""
    try:
        found = judge()
    except (ApiError, Unread) as error:
        found = unknown(check, error)
    return [found] if isinstance(found, Finding) else [*found]
