"""One collection of the API server as a `sharder.ports.Store`."""

import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import quote

import msgspec

from sharder.core.api.meta import Json, PartialObject, Resource, is_older
from sharder.core.errors import InvalidObject, Rewound
from sharder.core.names import FIELD_MANAGER, ObjectRef
from sharder.core.nesting import CUT, cut, name_in
from sharder.kube.client import APPLY_PATCH, JSON, MERGE_PATCH, REWOUND, Call, Client
from sharder.kube.errors import Status, decode_as, from_status, unreadable
from sharder.kube.pages import Page, decode_page, pages
from sharder.ports import Bookmark, Changed, Listed, Removed, WatchEvent

T = TypeVar("T")

_METADATA: Final = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,{JSON}"
_METADATA_LIST: Final = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Scope:
    """The objects of a resource that a store lists and watches; by default all."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    """Selectors."""

    def query(self, labels: str = "", fields: str = "") -> dict[str, str]:
        """Return the query for objects that also match these selectors."""
        both = (
            ("labelSelector", (self.labels, labels)),
            ("fieldSelector", (self.fields, fields)),
        )
        joined = {name: ",".join(filter(None, each)) for name, each in both}
        return {name: selector for name, selector in joined.items() if selector}


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_METADATA_DECODER = msgspec.json.Decoder(PartialObject)


_ALL: Final = Scope()


class KubeStore(Generic[T]):
    """The objects of a resource, decoded as the struct `of`.

    Lists, streams and watches log and skip objects that cannot be decoded, unless `unreadable`
    builds a replacement from the metadata and the error; `get` raises `InvalidObject`.  The same
    applies to objects that are nested too deeply for a decoder, unless the store is for metadata
    only.  A `PartialObject` gets kind and apiVersion of the resource, because the server omits
    them, or replaces them with `PartialObjectMetadata`.
    """

    def __init__(
        self,
        client: Client,
        of: type[T],
        resource: Resource,
        scope: Scope = _ALL,
        *,
        metadata_only: bool = False,
        pause: float = 0.0,
        decode: Callable[[bytes | msgspec.Raw], T] | None = None,
        unreadable: Callable[[PartialObject, str], T] | None = None,
    ) -> None:
        """Prepare it; nothing is read yet.

        `decode` replaces the decoder for `of`, if this would keep too much of an object.  `pause`
        is the time in seconds between two reads of a watch.
        """
        self._client = client
        self._resource = resource
        self._scope = scope
        self._suffix = ""
        self._metadata_only = metadata_only
        self._pause = pause
        self._unreadable = unreadable
        self._decode_one = decode or msgspec.json.Decoder(of).decode
        self._accept = _METADATA if metadata_only else JSON
        self._accept_list = _METADATA_LIST if metadata_only else JSON
        group, version = resource.id.group, resource.version
        self._type = {"api_version": resource.api_version, "kind": resource.kind}
        self._prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        self._all = self._collection(scope.namespace)
        self._writing: Mapping[str, str] = {}
        self._listed = ""
        """The version of a list after which no watch has begun."""

    def status(self) -> "KubeStore[T]":
        """Return a store that reads and patches the status of the same objects."""
        store = copy(self)
        store._suffix = "/status"  # noqa: SLF001 - it is of this class
        return store

    def dry_run(self) -> "KubeStore[T]":
        """Return a store whose creates and patches are not stored; they return what would be."""
        store = copy(self)
        store._writing = {"dryRun": "All"}  # noqa: SLF001 - it is of this class
        return store

    async def list(self, keep: Callable[[T], bool] | None = None) -> Listed[T]:
        """Return all objects, read from etcd in pages of one consistent state."""
        items: list[T] = []
        version = ""
        async for page in self._pages():
            items.extend(filter(keep, self._items(page)) if keep else self._items(page))
            version = page.metadata.resource_version
        self._listed = version
        return Listed(items, version)

    async def stream(self, labels: str = "", fields: str = "") -> AsyncGenerator[T, None]:
        """Yield all objects that also match these selectors; `Expired` if this takes too long."""
        async for page in self._pages(labels, fields):
            for obj in self._items(page):
                yield obj

    async def watch(self, resource_version: str) -> AsyncGenerator[WatchEvent[T], None]:
        """Yield a bookmark when the watch is established, then its events, as long as possible."""
        listed, self._listed = self._listed, ""
        if resource_version != listed:
            await self.check_reached(resource_version)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
        } | self._scope.query()
        call = Call(method="GET", path=self._all, query=query, accept=self._accept)
        async with self._client.lines(call, pause=self._pause) as lines:
            yield Bookmark(resource_version)
            async for line in lines:
                event = self._event(line)
                if event is not None:
                    yield event

    async def get(self, ref: ObjectRef) -> T:
        """Read the object (a quorum read)."""
        return await self._send("GET", self._path(ref))

    async def create(self, namespace: str, body: Json) -> T:
        """Create an object."""
        return await self._send("POST", self._collection(namespace), body, query=self._writing)

    async def patch(self, ref: ObjectRef, body: Json) -> T:
        """Merge `body` into the object, or only into its status if this store is `status()`."""
        return await self._send(
            "PATCH", self._path(ref), body, query=self._writing, content_type=MERGE_PATCH
        )

    async def apply(self, ref: ObjectRef, body: Json) -> T:
        """Apply `body` under the sharder's field manager, with force."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        path = self._path(ref)  # JSON is YAML
        return await self._send("PATCH", path, body, query=query, content_type=APPLY_PATCH)

    async def delete(self, ref: ObjectRef, *, uid: str, resource_version: str) -> None:
        """Delete the object only if it has this uid and resourceVersion."""
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options: Json = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
        }
        query = self._client.deadline()
        await self._client.request("DELETE", self._path(ref), query=query, body=options)

    def _pages(self, labels: str = "", fields: str = "") -> AsyncGenerator[Page, None]:
        query = self._scope.query(labels, fields)
        return pages(self._client, self._all, query, accept=self._accept_list)

    async def check_reached(self, version: str) -> None:
        """Raise `Rewound` if the server is before a version that it has shown.

        The server accepts a watch from such a version, and sends nothing until it has caught up.
        Without resourceVersion the answer is as new as etcd, so a server that lags is no reason.
        Each watch asks for itself: resources can be in another etcd, or behind another server.
        """
        query = {"limit": "1"} | Scope(fields=self._scope.fields).query()
        answer = await self._client.request("GET", self._all, query=query, accept=_METADATA_LIST)
        now = (await decode_page(answer, self._all)).metadata.resource_version
        if is_older(now, than=version):
            self._client.on_answer("GET", REWOUND)
            raise Rewound(f"{self._all}: version {version} was seen, but the server is at {now}")

    def _items(self, page: Page) -> Iterator[T]:
        for raw in page.items or ():
            obj = self._try_decode(raw)
            if obj is not None:
                yield obj

    def _event(self, line: bytes) -> WatchEvent[T] | None:
        path = self._all
        try:
            event = decode_as(line, _Event, path)
        except RecursionError:
            event = decode_as(cut(line), _Event, path)
        match event.type:
            case "BOOKMARK":
                bookmark = decode_as(event.object, PartialObject, path)
                return Bookmark(bookmark.metadata.resource_version)
            case "ERROR":
                status = decode_as(event.object, Status, path)
                raise from_status(status.code, status, f"watch {path}")
            case _:
                pass
        obj = self._try_decode(event.object)
        if obj is None:
            return None
        return Removed(obj) if event.type == "DELETED" else Changed(obj, event.type == "ADDED")

    async def _send(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
    ) -> T:
        """Send a request about one object, and decode the answer."""
        if method != "GET":
            query = self._client.deadline() | dict(query or {})
        answer = await self._client.request(
            method, path, query=query, body=body, content_type=content_type, accept=self._accept
        )
        try:
            return self._decode(answer)
        except msgspec.ValidationError as error:
            raise InvalidObject(f"{path}: {error}; fix the object") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise unreadable(error, path) from error

    def _try_decode(self, raw: msgspec.Raw) -> T | None:
        try:
            return self._decode(raw)
        except msgspec.DecodeError as error:
            problem = str(error)
        if self._unreadable is not None:
            with suppress(msgspec.DecodeError, RecursionError):
                return self._unreadable(_METADATA_DECODER.decode(raw), problem)
        fields = {"resource": str(self._resource.id), "object": name_in(bytes(raw))}
        _log.warning(
            "skipping undecodable object, correct or delete it", extra={**fields, "error": problem}
        )
        return None

    def _decode(self, raw: bytes | msgspec.Raw) -> T:
        try:
            obj = self._decode_one(raw)
        except RecursionError:
            raw = cut(bytes(raw))
            obj = self._decode_one(raw)
        if not self._metadata_only and CUT in bytes(raw):
            raise msgspec.ValidationError("it is nested too deeply")
        if isinstance(obj, PartialObject):
            return msgspec.structs.replace(obj, **self._type)
        return obj

    def _collection(self, namespace: str) -> str:
        middle = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return f"{self._prefix}{middle}/{self._resource.id.resource}"

    def _path(self, ref: ObjectRef) -> str:
        return f"{self._collection(ref.namespace)}/{quote(ref.name, safe='')}{self._suffix}"
