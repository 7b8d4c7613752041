"""The stores of `sharder.kube` on the API server of the testing kit, whose requests can fail."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Generic, TypeVar

from typing_extensions import override

from sharder.core.api.lease import parse_time
from sharder.core.api.meta import Json, Resource
from sharder.core.names import ObjectRef
from sharder.kube.store import Scope
from sharder.sdk.testing.memory_client import Collection, Faults, MemoryClient
from sharder.sdk.testing.requests import Call, Client
from sharder.sdk.testing.storage import Storage, Stored
from tests.support.full_server import FullServer

T = TypeVar("T")


def at_noon() -> datetime:
    """Return the server's time, if a test has no clock."""
    noon = parse_time("2026-03-01T12:00:00Z")
    assert noon is not None
    return noon


class State:
    """What all views of one collection share."""

    def __init__(self, server: FullServer, resource: Resource) -> None:
        self.server = server
        self.resource = resource
        self.faults = Faults()

    @property
    def objects(self) -> dict[ObjectRef, Stored]:
        """The objects that are stored."""
        return self.server.storage.of(self.resource.id)


def server_of(resources: Iterable[Resource], now: Callable[[], datetime] = at_noon) -> FullServer:
    """Return an empty API server."""
    return FullServer(Storage(), resources, now=now)


class _Connection(MemoryClient):
    """The connection of one view."""

    def __init__(self, store: "FakeStore[T]") -> None:
        self.namespace = ""
        self._user = Client()
        self._store = store

    @property
    @override
    def server(self) -> FullServer:  # type: ignore[override]  # it follows the view's state
        return self._store._state.server

    @override
    def before(self, call: Call) -> None:
        self._store._stumble()

    @override
    def after(self, call: Call) -> None:
        if call.method != "GET" and (losing := self._store._state.faults.losing):
            raise losing.popleft()


class FakeStore(Collection[T], Generic[T]):
    """A `sharder.ports.Store`; views with other selectors share the objects."""

    def __init__(
        self,
        of: type[T],
        resource: Resource,
        *,
        state: State | None = None,
        labels: str = "",
        namespace: str = "",
        fields: str = "",
    ) -> None:
        """Open a view, on a server of its own if there is no `state`."""
        self._state = state or State(server_of([resource]), resource)
        scope, faults = Scope(namespace, labels, fields), self._state.faults
        super().__init__(_Connection(self), of, resource, scope, faults)
        self._of = of

    def selecting(self, labels: str, *, namespace: str = "", fields: str = "") -> "FakeStore[T]":
        """Return a view of the objects that match."""
        return FakeStore(
            self._of,
            self._resource,
            state=self._state,
            labels=labels,
            namespace=namespace,
            fields=fields,
        )

    @override
    async def create(self, namespace: str, body: Json) -> T:
        """Create an object, with its status; the version of its body counts for nothing."""
        assert isinstance(body, dict)
        metadata = body["metadata"]
        assert isinstance(metadata, dict)
        kept = {key: value for key, value in metadata.items() if key != "resourceVersion"}
        created = await super().create(namespace, {**body, "metadata": kept})
        if status := body.get("status"):
            ref = ObjectRef(namespace, str(metadata["name"]))
            return await self.status().patch(ref, {"status": status})
        return created

    @override
    def hang_up(self) -> None:
        """End all watches: by the next error, or cleanly, as the API server does after a while."""
        failing = self._state.faults.failing
        error = failing.popleft() if failing else None
        self._state.server.hang_up(self._resource.id, error=error)

    def _stumble(self) -> None:
        if failing := self._state.faults.failing:
            raise failing.popleft()
