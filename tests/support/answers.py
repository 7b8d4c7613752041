"""Plays one sequence of requests on an API server, and writes down its answers.

What differs by nature is replaced: times, uids, generated names, resourceVersions (by their order)
and messages.  Everything else has to be equal.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from sharder.core.api.meta import Json
from sharder.kube.client import APPLY_PATCH, JSON, MERGE_PATCH
from sharder.sdk.testing.requests import Call
from sharder.sdk.testing.requests import Client as User
from sharder.sdk.testing.storage import Tree
from tests.support.two_servers import Server

MAPS: Final = "/api/v1/namespaces/NS/configmaps"
LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/NS/leases"
SITES: Final = "/apis/contract.example.com/v1/namespaces/NS/sites"
METADATA: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
METADATA_LIST: Final = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
_LEFT_OUT: Final = {"managedFields", "message", "details", "remainingItemCount", "selfLink"}
_WATCH_SECONDS: Final = 60


class Play:
    """Sends requests, and keeps what came back."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._said: list[tuple[str, Json]] = []
        self.user = User()
        """Who sends the requests."""

    async def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        content_type: str = JSON,
        accept: str = JSON,
        **query: str,
    ) -> Tree:
        """Send a request and note the answer; return its body."""
        call = self._call(
            method, path, body, content_type=content_type, accept=accept, query=query
        )
        status, answer = await self._server.send(call)
        decoded: Json = msgspec.json.decode(answer) if answer.startswith(b"{") else None
        self._said.append((f"{method} {path} {query or ''}", [status, decoded]))
        tree = decoded if isinstance(decoded, dict) else {}
        if method in {"POST", "PUT", "PATCH"} and status < 300 and "dryRun" not in query:
            await self._until_cached(path, tree)
        return tree

    async def _until_cached(self, path: str, tree: Tree) -> None:
        """Wait for the cache: a patch of what is older in it is tried twice, with all webhooks."""
        metadata = tree["metadata"]
        assert isinstance(metadata, dict)
        name = f"/{metadata['name']}"
        path = path if name in path else path + name
        call = self._call("GET", path, None, query={"resourceVersion": "0"})
        async with asyncio.timeout(_WATCH_SECONDS):
            while True:
                status, answer = await self._server.send(call)
                if status == 404 or _version(msgspec.json.decode(answer)) == _version(tree):
                    break
                await asyncio.sleep(0.02)

    async def create(self, path: str, body: Tree, **query: str) -> Tree:
        return await self.send("POST", path, body, **query)

    async def get(self, path: str, **query: str) -> Tree:
        return await self.send("GET", path, **query)

    async def replace(self, path: str, body: Tree, **query: str) -> Tree:
        return await self.send("PUT", path, body, **query)

    async def patch(self, path: str, body: Tree, **query: str) -> Tree:
        return await self.send("PATCH", path, body, content_type=MERGE_PATCH, **query)

    async def apply(self, path: str, body: Tree, manager: str = "one") -> Tree:
        return await self.send(
            "PATCH", path, body, content_type=APPLY_PATCH, fieldManager=manager, force="true"
        )

    async def delete(self, path: str, **preconditions: str) -> Tree:
        options: Tree = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if preconditions:
            options = {**options, "preconditions": dict(preconditions)}
        return await self.send("DELETE", path, options)

    async def watch(
        self, path: str, count: int, *, accept: str = JSON, **query: str
    ) -> Sequence[Tree]:
        """Note the next events of a watch."""
        asked = query | {"watch": "true", "timeoutSeconds": str(_WATCH_SECONDS)}
        call = self._call("GET", path, None, accept=accept, query=asked)
        events = list[Tree]()
        async with asyncio.timeout(_WATCH_SECONDS), self._server.watch(call) as lines:
            async for line in lines:
                events.append(msgspec.json.decode(line))
                if len(events) == count:
                    break
        self._said.append((f"watch {path} {query}", list(events)))
        return events

    async def quietly(self, path: str, body: Tree) -> None:
        """Create what has to be there; note nothing."""
        status, answer = await self._server.send(self._call("POST", path, body, query={}))
        assert status < 300, answer

    async def given_up(self, path: str, body: Tree, **query: str) -> None:
        """Send a create whose time runs out; the server answers 504 or breaks the connection."""
        with suppress(ConnectionError):
            status, answer = await self._server.send(self._call("POST", path, body, query=query))
            assert status == 504, answer

    async def until(self, path: str, body: Tree, is_seen: Callable[[Tree], bool]) -> None:
        """Try to create an object until the answer shows what was configured; note nothing."""
        call = self._call("POST", path, body, query={"dryRun": "All"})
        async with asyncio.timeout(_WATCH_SECONDS):
            while True:
                answer: Tree = msgspec.json.decode((await self._server.send(call))[1])
                if is_seen(answer):
                    break
                await asyncio.sleep(0.1)
        self._server.hooks.calls.clear()

    def note_calls(self) -> None:
        """Note which webhooks were called, and for what."""
        self._said.append(("called", list(self._server.hooks.calls)))

    async def forget(self, *paths: str) -> None:
        """Let the server remember no version before the present one; then it serves the paths."""
        await self._server.forget()
        async with asyncio.timeout(_WATCH_SECONDS):
            for path in paths:
                call = self._call("GET", path, None, query={})
                while (await self._server.send(call))[0] != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)

    def answers(self) -> Sequence[tuple[str, Json]]:
        """Return everything that was noted, without what differs by nature."""
        plain = _Plain(self._server.namespace, [body for _, body in self._said])
        return [(what, plain.of(body)) for what, body in self._said]

    def _call(
        self,
        method: str,
        path: str,
        body: Json,
        *,
        query: Mapping[str, str],
        content_type: str = JSON,
        accept: str = JSON,
    ) -> Call:
        namespace = self._server.namespace
        text = msgspec.json.encode(body).replace(b'"NS', b'"' + namespace.encode())
        text = self._server.fill_in(text)
        return Call(
            method=method,
            path=path.replace("NS", namespace),
            query=query,
            body=msgspec.json.decode(text),
            content_type=content_type,
            accept=accept,
            client=self.user,
        )


class _Plain:
    """Replaces what differs by nature, the same value always by the same."""

    def __init__(self, namespace: str, bodies: Sequence[Json]) -> None:
        self._namespace = namespace
        self._uids: dict[str, str] = {}
        versions = {version for body in bodies for version in _versions(body)}
        ordered = sorted(versions, key=int)
        self._versions = {version: f"v{at}" for at, version in enumerate(ordered)}

    def of(self, value: Json, key: str = "") -> Json:
        if isinstance(value, dict):
            return {
                name: self.of(each, name)
                for name, each in _comparable(value).items()
                if name not in _LEFT_OUT
            }
        if isinstance(value, list):
            return [self.of(each) for each in value]
        return self._text(value, key) if isinstance(value, str) else value

    def _text(self, value: str, key: str) -> str:
        match key:
            case "creationTimestamp" | "deletionTimestamp":
                return "time"
            case "uid":
                return self._uids.setdefault(value, f"uid-{len(self._uids)}")
            case "resourceVersion":
                return self._versions[value]
            case "continue":
                return "more"
            case _:
                return value.replace(self._namespace, "NS")


def _comparable(value: Mapping[str, Json]) -> Mapping[str, Json]:
    if _is_list(value):
        return {**value, "metadata": _without_version(value["metadata"])}
    if value.get("kind") == "Status":  # after a page has expired, with a token to go on
        return {**value, "metadata": {}}
    if isinstance(value.get("generateName"), str) and "name" in value:
        return {**value, "name": f"{value['generateName']}*"}
    return value


def _versions(value: Json) -> set[str]:
    """Return the resourceVersions of objects; those of lists also count other writes."""
    found = set[str]()
    if isinstance(value, dict):
        version = value.get("resourceVersion")
        if isinstance(version, str) and version:
            found.add(version)
        for name, each in value.items():
            if not (name == "metadata" and _is_list(value)):
                found |= _versions(each)
    elif isinstance(value, list):
        for each in value:
            found |= _versions(each)
    return found


def _version(tree: Tree) -> Json:
    metadata = tree.get("metadata")
    return metadata.get("resourceVersion") if isinstance(metadata, dict) else None


def _is_list(value: Mapping[str, Json]) -> bool:
    return "items" in value and isinstance(value.get("metadata"), dict)


def _without_version(metadata: Json) -> Json:
    assert isinstance(metadata, dict)
    assert int(str(metadata["resourceVersion"])) > 0
    return {name: each for name, each in metadata.items() if each and name != "resourceVersion"}
