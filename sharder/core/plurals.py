"""Numbers with their nouns, for messages."""


def counted(number: int, noun: str) -> str:
    """Return such as `1 object` or `2 objects`; the noun's plural ends in s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
