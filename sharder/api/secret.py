"""Secrets as values."""

from typing_extensions import override

from sharder.api.meta import PartialObject


class Secret(PartialObject, frozen=True, kw_only=True, rename="camel"):
    """A Secret; the values of `data` are base64 text, as on the wire."""

    type: str = ""
    data: dict[str, str] | None = None

    @override
    def __repr__(self) -> str:
        """Name it without its data, for reprs end up in logs."""
        return f"Secret({self.metadata.ref}, type={self.type!r}, keys={sorted(self.data or ())})"
