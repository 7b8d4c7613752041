"""Answer the controller as an API server in which only the objects of this shard exist."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, nullcontext
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from aiohttp import web
from multidict import MultiDict

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.errors import ApiError, InvalidObject
from sharder.kube.client import SILENT_SECONDS
from sharder.kube.passage import Answer, Passage
from sharder.proxy.answers import copied, expired, plain
from sharder.proxy.bodies import deletion_of, labelled, metadata_of
from sharder.proxy.copies import Copies
from sharder.proxy.election import LEASES
from sharder.proxy.gate import Refused
from sharder.proxy.here import Main
from sharder.proxy.lists import WholeList
from sharder.proxy.streams import Selectors, Sight
from sharder.proxy.targets import Target, Verb, as_json, is_set, target_of
from sharder.proxy.view import View

MAX_BODY: Final = 8 * 1024 * 1024
"""Bytes; the API server accepts 3 MB."""

_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_log = logging.getLogger(__name__)


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    next_page: str = msgspec.field(default="", name="continue")


class _Listed(msgspec.Struct, frozen=True):
    items: Sequence[PartialObject] | None = None
    metadata: _ListMeta = _ListMeta()

    @property
    def metas(self) -> Sequence[ObjectMeta]:
        return [each.metadata for each in self.items or ()]


class _Call(NamedTuple):
    """A write on its way."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class ProxyServer:
    """The handler of all requests of the controller."""

    def __init__(self, passage: Passage, view: View) -> None:
        self._passage = passage
        self._view = view
        self.copies = Copies(view)
        """The open watches of the controller."""
        self._writing = set[asyncio.Task[web.Response]]()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        target = target_of(request.method, _path_of(request), request.query)
        try:
            _check(request)
            if target is None:
                return await self._pass(request)
            return await self._about_objects(request, target)
        except (Refused, InvalidObject) as error:
            refused = error if isinstance(error, Refused) else Refused(415, str(error))
            _log.info("refused %s %s: %s", request.method, request.path, refused)
            return web.json_response(refused.status, status=refused.code)
        except (OSError, ApiError) as error:
            late = Refused(503, f"{request.method} {request.path}: {error}")
            # A client would repeat the request, but a create might have been carried out.
            again = {"Retry-After": "1"} if request.method == "GET" else {}
            return web.json_response(late.status, status=503, headers=again)

    async def _about_objects(self, request: web.Request, target: Target) -> web.StreamResponse:
        view = self._view
        if (said := await self._of_lock(request, target)) is not None:
            return said
        match target.verb:
            case Verb.LIST if view.gate.concerns(target.resource):
                return await self._list(request, target)
            case Verb.WATCH if view.gate.concerns(target.resource):
                return await self._watch(request, target)
            case Verb.WATCH:
                view.watches(target.resource)
                return await self._pass(request)
            case Verb.GET if view.gate.is_main(target.resource):
                return await self._get(request, target)
            case Verb.DELETE_COLLECTION if view.gate.concerns(target.resource):
                return await self._delete_collection(request, target)
            case Verb.CREATE | Verb.WRITE:
                return await self._write(request, target)
            case _:
                return await self._pass(request)

    async def _of_lock(self, request: web.Request, target: Target) -> web.Response | None:
        """Answer for the controller's own election, None if the request is not about it."""
        body = await request.read() if target.resource == LEASES else b""
        if (said := self._view.lock.answer(target, body, request.content_type)) is None:
            return None
        status, content, kind = said
        return web.Response(status=status, body=content, content_type=kind)

    async def _get(self, request: web.Request, target: Target) -> web.StreamResponse:
        """Show a main object only if it is here; a client that sees it can act on it."""
        async with self._open(request) as answer:
            if (
                answer.status < 300
                and self._view.gate.here.named(target.resource, target.ref) is None
            ):
                raise Refused(404, f'{target.resource} "{target.ref.name}" not found')
            return await copied(request, answer)

    async def _list(self, request: web.Request, target: Target) -> web.StreamResponse:
        """List the objects of this shard, main objects when their children were shown.

        Such a list is whole: to the controller, what it lacks is gone.
        """
        view, sight = self._view, _sight(request, target)
        if not view.gate.is_main(target.resource):
            return await self._list_children(request, target)
        labels, listed = view.labels_of(target.resource), WholeList()
        while True:
            query = listed.query
            async with self._open(request, labels=labels, query=query, reads=True) as answer:
                if answer.status >= 300:
                    return await copied(request, answer)
                listed.add(await answer.read())
            if listed.is_complete:
                break
        if not any(sight.selectors):
            uids = {meta.uid for meta in listed.metas}
            view.gate.here.leave_but(target.resource, target.namespace, uids, listed.version)
        await view.arrivals.ready(target.resource, listed.metas, ())
        view.arrivals.delivered(listed.metas)
        view.show(sight)
        response = web.StreamResponse(headers=plain(answer.headers))
        await response.prepare(request)
        for piece in listed.pieces():
            await response.write(piece)
        return response

    async def _list_children(self, request: web.Request, target: Target) -> web.StreamResponse:
        labels, streams = self._view.labels_of(target.resource), self._view.streams
        begins_watch = request.query.get("resourceVersion")  # otherwise it reads only
        sight = _sight(request, target)
        with streams.listing(sight) if begins_watch else nullcontext():
            return await self._pass(request, labels=labels)

    async def _write(self, request: web.Request, target: Target) -> web.StreamResponse:
        body, kind = await request.read(), request.headers.get("Content-Type", "")
        gate, is_new = self._view.gate, target.verb is Verb.CREATE or "apply-patch" in kind

        def meta() -> ObjectMeta:
            is_whole = is_new or request.method == "PUT"
            return metadata_of(body, kind) if is_whole else ObjectMeta()

        try:
            main = await gate.admit(target, meta)
            if main is not None and is_new and target.resource in gate.controlled:
                # As the webhook does; but a child without the label would not be shown again.
                body = labelled(body, kind, gate.identity.owner_label, gate.identity.shard)
        except InvalidObject:
            if gate.concerns(target.resource):
                raise
            main = None
        if main is None:
            return await self._pass(request)
        call = _Call(request.method, _path_of(request), request.query, request.headers, body)
        return await self._begin(main, call)

    async def _delete_collection(self, request: web.Request, target: Target) -> web.StreamResponse:
        """Delete what is here of a collection, one by one; the rest has left, or is to arrive.

        The API server would list it first, and delete what leaves in the meantime.
        """
        gate, headers = self._view.gate, plain(request.headers)
        labels = self._view.labels_of(target.resource)
        async with self._open(request, labels=labels, instead="GET") as answer:
            if answer.status >= 300:
                return await copied(request, answer)
            listed = msgspec.json.decode(await answer.read(), type=_Listed)
        given = await request.read(), request.headers.get("Content-Type", ""), request.query
        for meta in listed.metas:
            if meta.namespace != target.namespace:
                raise Refused(405, f"{target.resource} are deleted in one namespace at a time")
            try:
                main = await gate.admit(Target(Verb.WRITE, target.resource, meta.ref), ObjectMeta)
            except Refused:
                if gate.holds_lease():
                    continue
                raise
            path = f"{_path_of(request)}/{quote(meta.name)}"
            body, headers["Content-Type"] = deletion_of(meta.uid, *given)
            done = await self._begin(main, _Call("DELETE", path, {}, headers, body))
            if done.status >= 300 and done.status != 404:
                return done
        status = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        return web.json_response({**status, "metadata": {"continue": listed.metadata.next_page}})

    async def _begin(self, main: Main | None, call: _Call) -> web.Response:
        """Send a write to a main object or its children, None for others; return the answer."""
        seconds = max(0.1, self._view.left())
        with ExitStack() as count:
            # No await between the decision and this count.  A write that has passed is under way
            # until the API server has answered, even if the controller does not wait for it.
            if main is not None:
                count.enter_context(self._view.gate.here.writing(main, seconds))
            sent = self._send(call, seconds, count.pop_all())
            writing = asyncio.create_task(sent)  # noqa: TID251 - it outlives the request
        self._writing.add(writing)
        writing.add_done_callback(self._written)
        return await asyncio.shield(writing)

    def _written(self, writing: asyncio.Task[web.Response]) -> None:
        self._writing.discard(writing)
        if not writing.cancelled():
            writing.exception()  # whoever waited has got it, if anybody did

    async def _send(self, call: _Call, seconds: float, count: ExitStack) -> web.Response:
        """Send a write, which is given up when the Lease ends."""
        target = call.path + _asked(call.query, {"timeout": f"{seconds:.3f}s"})
        with count:
            async with self._passage.open(
                call.method, target, plain(call.headers), call.body or None, seconds=seconds
            ) as answer:
                content = await answer.read()
        return web.Response(status=answer.status, body=content, headers=plain(answer.headers))

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        view, sight = self._view, _sight(request, target)
        version = request.query.get("resourceVersion", "")
        is_main = view.gate.is_main(target.resource)
        sends_initial = is_set(request.query, "sendInitialEvents")
        begins = sends_initial or version in {"", "0"}
        labels = view.labels_of(target.resource)
        async with self._open(request, labels=labels, reads=True) as answer:
            if answer.status >= 300:
                return await copied(request, answer)
            if is_main and not begins and not view.has_shown(sight):
                # Not before the answer: the Lease can be lost until then.
                return expired(Refused(410, "this proxy has begun anew; list again"))
            response = web.StreamResponse(status=answer.status, headers=plain(answer.headers))
            response.enable_chunked_encoding()
            await response.prepare(request)
            if is_main:
                view.show(sight)
            since = "" if sends_initial else version
            with view.streams.opened(sight, since) as stream:
                await self.copies.copy(stream, response, answer)
            return response

    async def _pass(self, request: web.Request, *, labels: str = "") -> web.StreamResponse:
        async with self._open(request, labels=labels) as answer:
            return await copied(request, answer)

    @asynccontextmanager
    async def _open(
        self,
        request: web.Request,
        *,
        labels: str = "",
        query: Mapping[str, str] | None = None,
        reads: bool = False,
        instead: str = "",
    ) -> AsyncIterator[Answer]:
        """Send the request on, or another method for the metadata of the same objects instead.

        `reads` is whether we read the answer, which is JSON then.
        """
        headers, target = plain(request.headers), request.raw_path
        if reads or instead:
            headers["Accept"] = _METADATA if instead else as_json(headers.get("Accept", ""))
            headers["Accept-Encoding"] = "identity"
        if labels:
            given = request.query.get("labelSelector")
            narrowed = {"labelSelector": f"{given},{labels}" if given else labels}
            target = _path_of(request) + _asked(request.query, {**narrowed, **(query or {})})
        body = b"" if instead else await request.read()
        silence = SILENT_SECONDS if is_set(request.query, "allowWatchBookmarks") else None
        async with self._passage.open(
            instead or request.method, target, headers, body or None, silence=silence
        ) as answer:
            yield answer


def _check(request: web.Request) -> None:
    """Refuse what the proxy cannot read; clients then try it in another way.

    client-go sends JSON after the first 415 to CBOR, and the client of Java watches by HTTP after
    a 503 to a WebSocket.
    """
    if "cbor" in request.content_type:
        raise Refused(415, "the proxy of this shard reads JSON and protobuf only")
    if request.headers.get("Upgrade", "").lower().startswith(("websocket", "spdy")):
        raise Refused(503, "the proxy of this shard passes no exec, attach and port forwarding")


def _asked(query: Mapping[str, str], more: Mapping[str, str]) -> str:
    """Return the query of a URL with other values of these parameters; names can come twice."""
    changed = MultiDict(query)
    changed.update(more)
    return f"?{urlencode(list(changed.items()))}"


def _path_of(request: web.Request) -> str:
    """Return the path as it came, escaped."""
    return request.raw_path.partition("?")[0]


def _sight(request: web.Request, target: Target) -> Sight:
    return Sight(target.resource, target.namespace, Selectors.of(request.query))
