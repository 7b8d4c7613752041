"""Clients of an API server in memory, without a network in between."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

import msgspec
from typing_extensions import override

from sharder.core.api.meta import Resource
from sharder.core.errors import ApiError, Unavailable
from sharder.kube import client as kube
from sharder.kube.errors import refusal
from sharder.kube.session import TooLong
from sharder.kube.store import KubeStore, Scope
from sharder.sdk.testing.api_server import ApiServer
from sharder.sdk.testing.requests import Call, Client, Refused

T = TypeVar("T")


class MemoryClient(kube.Client):
    """Sends requests to one API server as one user."""

    def __init__(self, server: ApiServer, user: Client) -> None:
        self.namespace = ""
        self.server = server
        self._user = user

    def before(self, call: Call) -> None:
        """Be called before each request; an error ends it."""

    def after(self, call: Call) -> None:
        """Be called after each request but a watch; an error replaces the answer."""

    @override
    async def send(
        self,
        call: kube.Call,
        *,
        timeout: float,
        max_bytes: int | None,
    ) -> bytes:
        asked = call_of(self._user, call)
        self.before(asked)
        try:
            _, answer = await self.server.answer(asked)
        except Refused as error:
            raise refusal(error.code, error.status, f"{call.method} {call.path}") from error
        self.after(asked)
        if max_bytes is not None and len(answer) > max_bytes:
            raise TooLong
        return answer

    @override
    @asynccontextmanager
    async def lines(
        self, call: kube.Call, *, pause: float = 0.0
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        asked = call_of(self._user, call)
        self.before(asked)
        try:
            watcher = self.server.watch(asked)
        except Refused as error:
            raise refusal(error.code, error.status, f"GET {call.path}") from error
        try:
            yield watcher.lines()
        finally:
            watcher.close()

    @override
    def server_time(self) -> datetime | None:
        return self.server.now()

    @override
    async def close(self) -> None:
        """Nothing is open."""


def call_of(user: Client, call: kube.Call) -> Call:
    """Return the request as the server reads it, with a body of its own."""
    body = None if call.body is None else msgspec.json.decode(msgspec.json.encode(call.body))
    return Call(**msgspec.structs.asdict(call) | {"client": user, "body": body})


@dataclass(slots=True)
class Faults:
    """The errors of the next requests for one resource."""

    failing: deque[ApiError] = field(default_factory=deque)
    """Each ends a request before it has any effect."""
    losing: deque[ApiError] = field(default_factory=deque)
    """Each replaces the answer to a write."""


class Collection(KubeStore[T], Generic[T]):
    """The objects of one resource, as another client reads and writes them."""

    def __init__(
        self, client: MemoryClient, of: type[T], resource: Resource, scope: Scope, faults: Faults
    ) -> None:
        """Read the objects as the type `of`; `faults` are those of the shards' requests."""
        super().__init__(client, of, resource, scope)
        self._memory = client
        self._faults = faults

    def fail(self, *errors: ApiError) -> None:
        """Let the next requests of the shards fail without any effect, each with an error."""
        self._faults.failing.extend(errors)

    def lose(self, *errors: ApiError) -> None:
        """Let the next writes of the shards succeed, but raise an error instead of each answer.

        Without an argument the answer to the next write is lost, which is `Unavailable`.
        """
        self._faults.losing.extend(errors or [Unavailable("the API server does not answer")])

    def hang_up(self) -> None:
        """End all watches cleanly, as the API server does after a while."""
        self._memory.server.hang_up(self._resource.id)

    def compact(self) -> None:
        """Forget the history: older versions are expired."""
        self._memory.server.storage.compact()
