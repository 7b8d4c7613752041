"""Metadata of a shard's own objects: what sharding reads, and their finalizers."""

from sharder.core.api.meta import ObjectMeta, PartialObject


class OwnMeta(ObjectMeta, frozen=True, kw_only=True, rename="camel"):
    """The metadata that a request shows; absent fields are empty."""

    finalizers: list[str] | None = None

    def has_finalizer(self, name: str) -> bool:
        """Return whether the object has the finalizer."""
        return name in (self.finalizers or ())


class OwnObject(PartialObject, frozen=True, kw_only=True, rename="camel"):
    """An object of any kind with its type and that metadata only."""

    metadata: OwnMeta = OwnMeta()
