"""The objects of one resource of a cluster in memory, and what goes wrong with requests for it."""

from collections import deque
from typing import Generic, TypeVar

from sharder.core.api.meta import Resource
from sharder.core.errors import ApiError, Unavailable
from sharder.kube.store import KubeStore
from sharder.sdk.testing.api_server import ApiServer
from sharder.sdk.testing.memory_client import MemoryClient
from sharder.sdk.testing.requests import Call, Client

T = TypeVar("T")


class Faults:
    """The errors of the next requests for one resource."""

    def __init__(self) -> None:
        self._failing = deque[ApiError]()
        self._losing = deque[ApiError]()

    def fail(self, *errors: ApiError) -> None:
        """Let the next requests fail without any effect, each with one of the errors.

        Raises:
            TypeError: an argument is no `ApiError`.
        """
        self._failing.extend(_checked(errors))

    def lose(self, *errors: ApiError) -> None:
        """Let the next writes succeed, but raise an error instead of the answer of each.

        Without an argument the answer to the next write is lost, which is `Unavailable`.

        Raises:
            TypeError: an argument is no `ApiError`.
        """
        lost = _checked(errors) or [Unavailable("the API server does not answer")]
        self._losing.extend(lost)

    def clear(self) -> None:
        """Let all requests succeed from now on."""
        self._failing.clear()
        self._losing.clear()

    def before(self) -> None:
        """Raise the next error, before a request is sent."""
        if self._failing:
            raise self._failing.popleft()

    def after(self, call: Call) -> None:
        """Raise the next error, after a write."""
        if self._losing and call.method != "GET":
            raise self._losing.popleft()


class Collection(KubeStore[T], Generic[T]):
    """The objects of one resource, as another client reads and writes them."""

    def __init__(
        self, server: ApiServer, resource: Resource, of: type[T], faults: Faults, labels: str = ""
    ) -> None:
        """Read the objects as the type `of`; `faults` are those of the shards' requests."""
        super().__init__(MemoryClient(server, Client()), of, resource, labels=labels)
        self._server = server
        self._id = resource.id
        self._faults = faults

    def fail(self, *errors: ApiError) -> None:
        """Let the next requests of the shards fail without any effect."""
        self._faults.fail(*errors)

    def lose(self, *errors: ApiError) -> None:
        """Let the next writes of the shards succeed, but lose their answers."""
        self._faults.lose(*errors)

    def recover(self) -> None:
        """Let all requests succeed from now on."""
        self._faults.clear()

    def hang_up(self) -> None:
        """End all watches cleanly, as the API server does after a while."""
        self._server.hang_up(self._id)

    def compact(self) -> None:
        """Forget the history: older versions are expired."""
        self._server.storage.compact()


def _checked(errors: tuple[object, ...]) -> list[ApiError]:
    """Return the errors; `TypeError` if one is no `ApiError`."""
    known = [error for error in errors if isinstance(error, ApiError)]
    if len(known) < len(errors):
        raise TypeError(f"requests fail with an ApiError, such as Unavailable, not with {errors}")
    return known
