"""Resources as the API server serves them."""

from dataclasses import dataclass

from sharder.names import GroupResource


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource as the API server serves it, in its preferred version."""

    id: GroupResource
    version: str
    kind: str
    namespaced: bool
