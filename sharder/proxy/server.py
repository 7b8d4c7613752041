"""Answer the controller as an API server in which only the objects of this shard exist."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, nullcontext
from typing import Final
from urllib.parse import urlencode

import msgspec
from aiohttp import web
from multidict import MultiDict

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.core.errors import ApiError, InvalidObject
from sharder.kube.client import SILENT_SECONDS
from sharder.kube.passage import Answer, Passage
from sharder.proxy.answers import copied, expired, plain
from sharder.proxy.bodies import labelled, metadata_of
from sharder.proxy.copies import Copies
from sharder.proxy.election import LEASES
from sharder.proxy.gate import Refused
from sharder.proxy.streams import Selectors, Sight
from sharder.proxy.targets import Target, Verb, as_json, is_set, target_of
from sharder.proxy.view import View

MAX_BODY: Final = 8 * 1024 * 1024
"""Bytes; the API server accepts 3 MB."""

_log = logging.getLogger(__name__)


class _Listed(msgspec.Struct, frozen=True):
    items: Sequence[PartialObject] | None = None
    metadata: ObjectMeta = ObjectMeta()


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
            if target is None:
                return await self._pass(request)
            return await self._about_objects(request, target)
        except Refused as refused:
            _log.info("refused %s %s: %s", request.method, request.path, refused)
            return web.json_response(refused.status, status=refused.code)
        except (OSError, ApiError) as error:
            late = Refused(503, f"{request.method} {request.path}: {error}")
            # A client would repeat the request, but a create might have been carried out.
            again = {"Retry-After": "1"} if request.method == "GET" else {}
            return web.json_response(late.status, status=503, headers=again)

    async def _about_objects(self, request: web.Request, target: Target) -> web.StreamResponse:
        view = self._view
        if target.resource == LEASES:
            body = await request.read()
            if (said := view.lock.answer(target, body, request.content_type)) is not None:
                status, content, kind = said
                return web.Response(status=status, body=content, content_type=kind)
        match target.verb:
            case Verb.LIST if view.gate.is_main(target.resource):
                return await self._list(request, target)
            case Verb.WATCH if view.gate.concerns(target.resource):
                return await self._watch(request, target)
            case Verb.LIST if view.gate.concerns(target.resource):
                return await self._list_children(request, target)
            case Verb.GET if view.gate.is_main(target.resource):
                return await self._get(request, target)
            case Verb.CREATE | Verb.WRITE | Verb.DELETE_COLLECTION:
                return await self._write(request, target)
            case _:
                return await self._pass(request)

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
        """List the main objects of this shard, when their children were shown.

        The list is whole: to the controller, what it lacks is gone.
        """
        view, sight = self._view, _sight(request, target)
        labels, whole = view.labels_of(target.resource), {"limit": "0"}
        async with self._open(request, labels=labels, query=whole, reads=True) as answer:
            if answer.status >= 300:
                return await copied(request, answer)
            body = await answer.read()
            listed = msgspec.json.decode(body, type=_Listed)
            metas = [each.metadata for each in listed.items or ()]
            if not any(sight.selectors):
                uids, version = {meta.uid for meta in metas}, listed.metadata.resource_version
                view.gate.here.leave_but(target.resource, target.namespace, uids, version)
            await view.arrivals.ready(target.resource, metas)
            view.arrivals.delivered(metas)
            view.show(sight)
            return web.Response(status=answer.status, body=body, headers=plain(answer.headers))

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
        except InvalidObject as error:
            if gate.concerns(target.resource):
                raise Refused(415, str(error)) from error
            main = None
        if main is None:
            return await self._pass(request)
        with ExitStack() as count:
            # No await between the decision and this count.  A write that has passed is under way
            # until the API server has answered, even if the controller does not wait for it.
            count.enter_context(gate.here.writing(main))
            sent = self._send(request, body, count.pop_all())
            writing = asyncio.create_task(sent)  # noqa: TID251 - it outlives the request
        self._writing.add(writing)
        writing.add_done_callback(self._written)
        return await asyncio.shield(writing)

    def _written(self, writing: asyncio.Task[web.Response]) -> None:
        self._writing.discard(writing)
        if not writing.cancelled():
            writing.exception()  # whoever waited has got it, if anybody did

    async def _send(self, request: web.Request, body: bytes, count: ExitStack) -> web.Response:
        """Send a write, which is given up when the Lease ends."""
        seconds = max(0.1, self._view.left())
        with count:
            async with self._open(
                request, query={"timeout": f"{seconds:.3f}s"}, seconds=seconds, body=body
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
        seconds: float | None = None,
        reads: bool = False,
        body: bytes | None = None,
    ) -> AsyncIterator[Answer]:
        """Send the request on, with another body if it is given.

        `reads` is whether we read the answer, which is JSON then.
        """
        headers, target = plain(request.headers), request.raw_path
        if reads:
            headers["Accept"] = as_json(headers.get("Accept", ""))
            headers["Accept-Encoding"] = "identity"
        if labels or query:
            asked = MultiDict(request.query)
            asked.update(query or {})
            if labels:
                given = asked.get("labelSelector")
                asked["labelSelector"] = f"{given},{labels}" if given else labels
            target = f"{_path_of(request)}?{urlencode(list(asked.items()))}"
        sent = await request.read() if body is None else body
        silence = SILENT_SECONDS if is_set(request.query, "allowWatchBookmarks") else None
        async with self._passage.open(
            request.method, target, headers, sent or None, seconds=seconds, silence=silence
        ) as answer:
            yield answer


def _path_of(request: web.Request) -> str:
    """Return the path as it came, escaped."""
    return request.raw_path.partition("?")[0]


def _sight(request: web.Request, target: Target) -> Sight:
    return Sight(target.resource, target.namespace, Selectors.of(request.query))
