"""What can change or refuse a write to an API server in memory."""

from typing import NamedTuple, Protocol

from sharder.core.api.meta import Resource
from sharder.sdk.testing.requests import Call, Place
from sharder.sdk.testing.storage import Tree


class Attributes(NamedTuple):
    """A write that is about to be stored."""

    call: Call
    place: Place
    resource: Resource
    operation: str
    """CREATE, UPDATE or DELETE."""
    obj: Tree | None
    old: Tree | None


class Admission(Protocol):
    """Changes or refuses writes."""

    async def mutate(self, attributes: Attributes) -> Tree:
        """Return the object as webhooks changed it; `Refused` if one rejects it."""
        ...

    def validate(self, attributes: Attributes) -> None:
        """Raise `Refused` if a policy rejects the write."""
        ...


class Open:
    """Admits everything."""

    async def mutate(self, attributes: Attributes) -> Tree:
        """Return the object unchanged."""
        assert attributes.obj is not None  # noqa: S101 - a delete is never mutated
        return attributes.obj

    def validate(self, attributes: Attributes) -> None:
        """Admit the write."""
