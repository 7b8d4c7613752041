"""Numbers with their nouns, and lists of names, for messages."""

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """Return a text such as `1 object` or `2 objects`; the plural of the noun must end in s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def named(names: Sequence[str], most: int = 3) -> str:
    """Return a text such as `a, b, c and 4 more`, which names at most `most`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
