"""Numbers with their nouns, for messages."""


def counted(number: int, noun: str) -> str:
    """Return a text such as `1 object` or `2 objects`; the plural of the noun must end in s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
