"""Answer the controller as an API server in which only the objects of this shard exist."""

import logging
from typing import Final

from aiohttp import web

from sharder.core.errors import ApiError, Expired, InvalidObject
from sharder.kube.passage import Passage
from sharder.proxy.copies import copy
from sharder.proxy.forward import Answered, Forwarder, copied, expired, path_of, plain, written
from sharder.proxy.streams import Selectors, Sight
from sharder.proxy.targets import Target, Verb, is_set, target_of
from sharder.proxy.view import View
from sharder.proxy.write_gate import Refused
from sharder.proxy.writes import Writes
from sharder.shard.rights import LEASES

MAX_BODY: Final = 8 * 1024 * 1024
"""Bytes; the API server accepts 3 MB."""

_log = logging.getLogger(__name__)


class ProxyServer:
    """The handler of all requests of the controller."""

    def __init__(self, passage: Passage, view: View) -> None:
        self._view = view
        self._forward = Forwarder(passage, view.is_hidden)
        self._writes = Writes(view, self._forward)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        target = target_of(request.method, path_of(request), request.query)
        try:
            _check(request)
            if target is None:
                return await self._forward.copy(request)
            return await self._about_objects(request, target)
        except Answered as answered:
            return answered.response
        except Expired as error:
            return expired(Refused(410, str(error)))
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
        if (said := await self._of_lock(request, target)) is not None:
            return said
        if not self._view.gate.concerns(target.resource):
            return await self._outside(request, target)
        self._view.here.heard()
        match target.verb:
            case Verb.LIST:
                return await self._list(request, target)
            case Verb.WATCH:
                return await self._watch(request, target)
            case Verb.GET:
                return await self._get(request, target)
            case Verb.DELETE_COLLECTION:
                return await self._writes.delete_collection(request, target)
            case Verb.CREATE | Verb.PUT | Verb.WRITE:
                return await self._writes.write(request, target)

    async def _of_lock(self, request: web.Request, target: Target) -> web.Response | None:
        """Answer for the controller's own election, None if the request is not about it."""
        body = await request.read() if target.resource == LEASES else b""
        if (said := self._view.lock.answer(target, body, request.content_type)) is None:
            return None
        self._view.here.heard()
        status, content, kind = said
        return web.Response(status=status, body=content, content_type=kind)

    async def _outside(self, request: web.Request, target: Target) -> web.StreamResponse:
        """Answer what is not about the ring; but any object can be a child when it is created."""
        if target.verb is Verb.CREATE:
            return await self._writes.write(request, target)
        if target.verb is Verb.WATCH:
            self._view.watches(target.resource)
        return await self._forward.copy(request)

    async def _get(self, request: web.Request, target: Target) -> web.StreamResponse:
        """Show a main object only if it is here; a client that sees it can act on it."""
        async with self._forward.open(request) as answer:
            view, resource = self._view, target.resource
            is_own = view.gate.is_main(resource) and resource not in view.read_others
            if is_own and view.here.named(resource, target.ref) is None:
                raise Refused(404, f'{target.resource} "{target.ref.name}" not found')
            return await copied(request, answer)

    async def _list(self, request: web.Request, target: Target) -> web.StreamResponse:
        """List the objects of this shard, main objects when their children were shown.

        Such a list is whole: to the controller, what it lacks is gone.
        """
        view, sight = self._view, _sight(request, target)
        if not view.gate.is_main(target.resource):
            return await self._list_children(request, target)
        term, labels = view.term, view.labels_of(target.resource)
        answer, listed = await self._forward.listed(request, labels=labels, whole=True)
        if not any(sight.selectors):
            uids = {meta.uid for meta in listed.metas}
            view.here.leave_but(target.resource, target.namespace, uids, listed.version)
        await view.ready(term, target.resource, listed.metas)
        term.show(sight)
        with view.here.delivering(listed.metas):
            return await written(request, answer, listed)

    async def _list_children(self, request: web.Request, target: Target) -> web.StreamResponse:
        labels, streams = self._view.labels_of(target.resource), self._view.streams
        begins_watch = bool(request.query.get("resourceVersion"))  # otherwise it can be a read
        with streams.listing(_sight(request, target), begins_watch=begins_watch):
            if labels:
                return await self._forward.copy(request, labels=labels)
            answer, listed = await self._forward.listed(request, labels="")
            return await written(request, answer, listed)

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        view, sight = self._view, _sight(request, target)
        version = request.query.get("resourceVersion", "")
        is_main = view.gate.is_main(target.resource)
        sends_initial = is_set(request.query, "sendInitialEvents")
        begins = sends_initial or version in {"", "0"}
        labels = view.labels_of(target.resource)
        if not begins:
            await view.check_reached(target.resource, version)
        async with self._forward.open(request, labels=labels, reads=True) as answer:
            term = view.term
            if is_main and not begins and not term.has_shown(sight):
                # Not before the answer: the Lease can be lost until then.
                view.streams.outlived()
                raise Expired("this proxy has begun anew; list again")
            response = web.StreamResponse(status=answer.status, headers=plain(answer.headers))
            response.enable_chunked_encoding()
            await response.prepare(request)
            if is_main:
                term.show(sight)
            with view.streams.opened(sight, version, sends_initial=sends_initial) as stream:
                await copy(view, term, stream, response, answer)
            return response


def _check(request: web.Request) -> None:
    """Refuse what the proxy cannot read; clients then try it in another way.

    client-go sends JSON after the first 415 to CBOR, and the client of Java watches by HTTP after
    a 503 to a WebSocket.
    """
    if "cbor" in request.content_type:
        raise Refused(415, "the proxy of this shard reads JSON and protobuf only")
    if request.headers.get("Upgrade", "").lower().startswith(("websocket", "spdy")):
        raise Refused(503, "the proxy of this shard passes no exec, attach and port forwarding")


def _sight(request: web.Request, target: Target) -> Sight:
    return Sight(target.resource, target.namespace, Selectors.of(request.query))
