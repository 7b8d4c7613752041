"""The order of the resourceVersions of one resource: they are numbers that grow (KEP-5504)."""


def is_older(version: str, than: str) -> bool:
    """Return whether `version` is lower; versions that are not numbers have no order."""
    return _is_number(version) and _is_number(than) and _order(version) < _order(than)


def number_of(version: str) -> int:
    """Return a version as a number, 0 if there is none or an aggregated API uses text."""
    return int(version) if version.isdecimal() else 0


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdecimal()


def _order(version: str) -> tuple[int, str]:
    digits = version.lstrip("0")
    return len(digits), digits
