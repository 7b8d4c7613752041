"""Let the controller write to what is here, as long as the Lease is held."""

import asyncio
from urllib.parse import quote

from aiohttp import web

from sharder.core.api.meta import OwnerReference
from sharder.core.errors import InvalidObject
from sharder.kube.session import UNACKNOWLEDGED_SECONDS
from sharder.proxy.bodies import deletion_of, labelled, owner_in
from sharder.proxy.forward import Call, Forwarder, path_of, plain
from sharder.proxy.here import Main
from sharder.proxy.targets import Target, Verb
from sharder.proxy.view import View
from sharder.proxy.write_gate import Refused, TooEarly


class Writes:
    """The writes of the controller."""

    def __init__(self, view: View, forward: Forwarder) -> None:
        self._view = view
        self._forward = forward

    async def write(self, request: web.Request, target: Target) -> web.StreamResponse:
        """Send a write on if the gate admits it; a child gets the label of this shard."""
        body, kind = await request.read(), request.headers.get("Content-Type", "")
        gate, is_new = self._view.gate, target.verb is Verb.CREATE or "apply-patch" in kind
        if is_new and target.verb is Verb.WRITE:
            target = target._replace(verb=Verb.PUT)

        def owner() -> OwnerReference | None:
            has_owner = target.verb is not Verb.WRITE or "merge-patch" in kind
            return owner_in(body, kind) if has_owner else None

        try:
            main = await gate.admit(target, owner)
            if main is not None and is_new and gate.is_child(target.resource):
                # As the webhook does; but a child without the label would not be shown again.
                body = labelled(body, kind, gate.identity.owner_label, gate.identity.shard)
        except InvalidObject:
            if gate.concerns(target.resource):
                raise
            main = None
        if main is None:
            return await self._forward.copy(request)
        call = Call(request.method, path_of(request), request.query, request.headers, body)
        return await self._send(main, call)

    async def delete_collection(self, request: web.Request, target: Target) -> web.StreamResponse:
        """Delete what is here of a collection, one by one; the rest has left, or is to arrive.

        The API server would list it first, and delete what leaves in the meantime.
        """
        gate, headers = self._view.gate, plain(request.headers)
        labels = self._view.labels_of(target.resource) or gate.identity.selector
        _, listed = await self._forward.listed(request, labels=labels)
        given = await request.read(), request.headers.get("Content-Type", ""), request.query
        for meta in listed.metas:
            if meta.namespace != target.namespace:
                raise Refused(405, f"{target.resource} are deleted in one namespace at a time")
            try:
                main = await gate.admit(Target(Verb.WRITE, target.resource, meta.ref))
            except TooEarly:
                raise
            except Refused:
                continue
            path = f"{path_of(request)}/{quote(meta.name)}"
            body, headers["Content-Type"] = deletion_of(meta.uid, *given)
            free = Main(target.resource, meta.ref, meta.uid)
            done = await self._send(main or free, Call("DELETE", path, {}, headers, body))
            if done.status >= 300 and done.status != 404:
                return done
        status = {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        return web.json_response({**status, "metadata": {"continue": listed.query["continue"]}})

    async def _send(self, main: Main, call: Call) -> web.Response:
        """Send a write to an object or its children, and return the answer.

        A write that has passed is under way until the API server has answered, even if the
        controller does not wait for it.
        """
        seconds = max(0.1, self._view.term.left())
        # No await between the decision and this count.
        sending = self._forward.write(call, seconds)
        writing = asyncio.create_task(sending)  # noqa: TID251 - it outlives the request
        self._view.here.sent(main, writing, seconds + UNACKNOWLEDGED_SECONDS)
        return await asyncio.shield(writing)
