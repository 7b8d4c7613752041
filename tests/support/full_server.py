"""The API server of the testing kit, with what the sharder and its commands need beside.

Replacing, applying and dry runs; lists in pages; reviews; a watch cache
that can be behind, and a server that can be away.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace
from typing_extensions import override

from sharder.core.api.meta import Json, Resource
from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk.testing.api_server import ApiServer, page_of
from sharder.sdk.testing.requests import Call, Client, Refused
from sharder.sdk.testing.rules import is_custom
from sharder.sdk.testing.storage import Change, Storage, Stored, Tree, metadata_of
from sharder.sdk.testing.watching import Selection, Watcher
from sharder.sdk.testing.writer import Target, Writer

_APPLY: Final = "application/apply-patch+yaml"
_KEYED: Final = {"webhooks": "name", "conditions": "type", "ownerReferences": "uid"}
"""Lists that server-side apply merges by a key."""


class FullWriter(Writer):
    """Also replaces and applies objects, and stores nothing in a dry run."""

    patches = Writer.patches | {_APPLY}

    def __init__(self, storage: Storage, now: Callable[[], datetime]) -> None:
        super().__init__(storage, now)
        self._applied: dict[tuple[GroupResource, ObjectRef, str], Tree] = {}

    @override
    async def update(self, target: Target) -> Stored:
        if target.call.content_type != _APPLY:
            return await super().update(target)
        body = target.body()
        if target.ref in self.storage.of(target.resource):
            stored = await super().update(target)
        else:
            named = {**body, "metadata": {**metadata_of(body), "name": target.place.name}}
            call = replace(target.call, method="POST", body=named)
            stored = await self.create(target._replace(call=call))
        self._applied[_manager(target)] = body
        return stored

    @override
    def wanted(self, target: Target, current: Stored) -> Tree:
        body, of = target.body(), {key: current.tree[key] for key in ("apiVersion", "kind")}
        if target.call.method == "PUT":
            target.check(body)
            if metadata_of(body).get("uid", current.meta.uid) != current.meta.uid:
                raise Refused(409, "Precondition failed: UID")
            if is_custom(target.served) and "resourceVersion" not in metadata_of(body):
                raise Refused(422, "metadata.resourceVersion: must be specified for an update")
            return {**body, **of}
        if target.call.content_type == _APPLY:
            return {
                **applied(current.tree, body, self._applied.get(_manager(target)) or {}),
                **of,
            }
        return super().wanted(target, current)

    @override
    def commit(self, target: Target, ref: ObjectRef, tree: Tree | None) -> Stored:
        if target.call.dry_run:
            return Stored(tree) if tree else self.find(target)
        return super().commit(target, ref, tree)


def _manager(target: Target) -> tuple[GroupResource, ObjectRef, str]:
    manager = target.call.query.get("fieldManager", target.call.client.username)
    return target.resource, target.ref, manager


def applied(current: Tree, body: Tree, before: Tree) -> Tree:
    """Return the object after a server-side apply; `before` is what this manager applied last."""
    result = dict(current)
    for key in before.keys() | body.keys():
        there, old, new = result.get(key), before.get(key), body.get(key)
        if key in _KEYED and isinstance(there, list) and (key in body):
            result[key] = list(_applied_list(_KEYED[key], there, new, old))
        elif isinstance(there, dict) and isinstance(new, dict):
            result[key] = applied(there, new, old if isinstance(old, dict) else {})
        elif key in body:
            result[key] = new
        else:
            result.pop(key, None)
    return result


def _applied_list(name: str, there: Json, body: Json, before: Json) -> Iterable[Json]:
    known, new, old = (
        {each[name]: each for each in entries if isinstance(each, dict)}
        for entries in (there if isinstance(there, list) else [], body or [], before or [])
        if isinstance(entries, list)
    )
    for key, each in known.items():
        if key in new:
            yield applied(each, new[key], old.get(key, {}))
        elif key not in old:
            yield each
    yield from (each for key, each in new.items() if key not in known)


class _Rest(NamedTuple):
    """The items of a list that the client has not read, as they were at its first page."""

    revision: int
    items: list[Stored]


class FullServer(ApiServer):
    """One of several API servers of a cluster."""

    def __init__(
        self, storage: Storage, resources: Iterable[Resource], *, now: Callable[[], datetime]
    ) -> None:
        super().__init__(storage, resources, now=now)
        self.writer = FullWriter(storage, now)
        self.cached: dict[GroupResource, dict[ObjectRef, Stored]] = {}
        """The watch cache."""
        self.is_away = False
        """Whether it does not answer."""
        self.starts = 0
        """How often it has started again."""
        self._reached = storage.revision
        self._rests: dict[str, _Rest] = {}

    @property
    @override
    def reached(self) -> int:
        return self._reached

    @override
    def shown(self, resource: GroupResource) -> Mapping[ObjectRef, Stored]:
        return self.cached.get(resource, {})

    @override
    def deliver(self, change: Change) -> None:
        objects = self.cached.setdefault(change.resource, {})
        if change.after is None:
            objects.pop(change.ref, None)
        else:
            objects[change.ref] = change.after
        self._reached = change.revision
        super().deliver(change)

    def go_away(self) -> None:
        """Answer nothing until `restart`."""
        self.is_away = True
        self.hang_up(error=ConnectionResetError())

    def restart(self) -> None:
        """End all watches, and read the storage anew."""
        self.is_away = False
        self.starts += 1
        self.hang_up()
        self.watchers.clear()
        self.cached = {each: dict(of) for each, of in self.storage.objects.items()}
        self._reached = self.storage.revision

    @override
    async def answer(self, call: Call) -> tuple[int, bytes]:
        if call.method == "POST" and call.path.endswith("reviews"):
            review = call.path.rpartition("/")[2]
            return 201, msgspec.json.encode({"status": self._reviewed(review, call)})
        if call.path == "/version":
            return 200, b'{"gitVersion":"v1.36.0","major":"1","minor":"36"}'
        seconds = call.query.get("timeout", "").removesuffix("s")
        try:
            async with asyncio.timeout(float(seconds) if seconds else None):
                return await super().answer(call)
        except TimeoutError:
            late = "request did not complete within requested timeout"
            raise Refused(504, late) from None

    @override
    def list(self, call: Call, selection: Selection, resource: GroupResource) -> bytes:
        token, limit = call.query.get("continue", ""), int(call.query.get("limit") or 0)
        # The watch cache ignores a limit.
        if not token and (not limit or call.query.get("resourceVersion") == "0"):
            return super().list(call, selection, resource)
        objects = sorted(self.storage.of(resource).items())
        rest = _Rest(self.storage.revision, [it for ref, it in objects if selection.has(ref, it)])
        if token:
            if token not in self._rests:
                raise Refused(400, "continue key is not valid")
            rest = self._rests[token]
            if rest.revision < self.storage.compacted:
                raise Refused(410, "the provided continue parameter is too old; list again")
        page = rest.items[: limit or None]
        metadata = {"resourceVersion": str(rest.revision)}
        if following := rest.items[len(page) :]:
            metadata["continue"] = f"{rest.revision}-{len(self._rests)}"
            self._rests[metadata["continue"]] = _Rest(rest.revision, following)
        return page_of(selection, page, **metadata)

    def _reviewed(self, review: str, call: Call) -> Json:
        match review:
            case "selfsubjectreviews":
                return {
                    "userInfo": {
                        "username": call.client.username,
                        "extra": dict(call.client.extra),
                    }
                }
            case "tokenreviews":
                return {"authenticated": False}
            case _:
                user = _in(call.body, "spec", "user")
                client = Client(username=str(user)) if user else call.client
                return {"allowed": self._has_right(call.body, client)}

    def _has_right(self, body: Json, client: Client) -> bool:
        asked = _in(body, "spec", "resourceAttributes")
        if not isinstance(asked, Mapping):
            return True
        part = str(asked.get("subresource") or "")
        name = str(asked.get("resource")) + (f"/{part}" if part else "")
        resource = GroupResource(str(asked.get("group") or ""), name)
        namespace = str(asked.get("namespace") or "")
        return self.allows(client, str(asked.get("verb")), resource, namespace)


def _in(body: Json, *keys: str) -> Json:
    for key in keys:
        body = body.get(key) if isinstance(body, Mapping) else None
    return body


def bookmark(watcher: Watcher) -> None:
    """Say which revision the watch has reached."""
    selection = watcher.selection
    watcher.put_line(
        b'{"type":"BOOKMARK","object":{"kind":"%s","apiVersion":"%s","metadata":'
        b'{"resourceVersion":"%d"}}}'
        % (selection.kind.encode(), selection.shown_version.encode(), watcher.revision)
    )
