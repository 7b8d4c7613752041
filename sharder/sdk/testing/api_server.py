"""An API server in memory: create, read, list, watch, update, patch, apply and delete.

It follows the rules of a real one as far as sharding depends on them; the contract tests play the
same sequences on both.  It runs no controllers.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from sharder.core.api.meta import Resource
from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk.testing.discovery import answer_of_discovery
from sharder.sdk.testing.listing import Lists
from sharder.sdk.testing.requests import Call, NotServed, Place, Refused, place_of
from sharder.sdk.testing.reviews import Allows, answer_of_review, everything
from sharder.sdk.testing.storage import Change, Storage, Stored
from sharder.sdk.testing.watching import Selection, Watcher, expired
from sharder.sdk.testing.writer import Served, Target, Writer
from sharder.sdk.testing.writes import rules_of


class ApiServer:
    """One API server; several can share a storage, each with a watch cache of its own."""

    def __init__(
        self,
        storage: Storage,
        resources: Iterable[Resource],
        *,
        now: Callable[[], datetime],
    ) -> None:
        self.storage = storage
        self.writer = Writer(storage, now)
        self._lists = Lists(storage)
        self.allows: Allows = everything
        """Whether a client has a right."""
        self.now = now
        self._served: dict[tuple[str, str, str], Served] = {}
        for resource in resources:
            self.serve(resource)
        self.cached: dict[GroupResource, dict[ObjectRef, Stored]] = {}
        """The watch cache: what lists from revision 0 and watches show."""
        self.reached = storage.revision
        """The revision of the watch cache."""
        self.is_away = False
        """Whether it does not answer."""
        self.starts = 0
        """How often it has started again."""
        self._opened = 0
        self._watchers: dict[GroupResource, list[Watcher]] = {}
        storage.observers.append(self.observe)

    def serve(self, resource: Resource) -> None:
        """Serve a resource from now on."""
        key = resource.id.group, resource.version, resource.id.resource
        self._served[key] = Served(resource, rules_of(resource))

    def withdraw(self, resource: GroupResource, version: str) -> None:
        """Serve a version of a resource no longer; its watches end."""
        self._served.pop((resource.group, version, resource.resource), None)
        for watcher in self._watchers.pop(resource, []):
            watcher.end()

    @property
    def resources(self) -> Iterator[Resource]:
        """The resources in the order in which they came."""
        return (each.resource for each in self._served.values())

    def observe(self, change: Change) -> None:
        """Take note of a change in the storage; another server may do so later."""
        self.deliver(change)

    def deliver(self, change: Change) -> None:
        """Bring the watch cache, and all watches, up to a change."""
        objects = self.cached.setdefault(change.resource, {})
        if change.after is None:
            objects.pop(change.ref, None)
        else:
            objects[change.ref] = change.after
        self.reached = change.revision
        watchers = self._watchers.get(change.resource)
        if watchers:
            for watcher in watchers:
                watcher.put(change)
            self._watchers[change.resource] = [each for each in watchers if not each.ended]

    def go_away(self) -> None:
        """Answer nothing until `restart`."""
        self.is_away = True
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.end(ConnectionResetError())

    def restart(self) -> None:
        """End all watches, and read the storage anew."""
        self.is_away = False
        self.starts += 1
        for watchers in self._watchers.values():
            for watcher in watchers:
                watcher.end()
        self._watchers.clear()
        self.cached = {each: dict(of) for each, of in self.storage.objects.items()}
        self.reached = self.storage.revision

    def hang_up(self, resource: GroupResource | None = None) -> None:
        """End the watches of a resource, or all of them, as the API server does after a while."""
        for key, watchers in self._watchers.items():
            for watcher in watchers if resource in {None, key} else ():
                watcher.end()

    async def answer(self, call: Call) -> tuple[int, bytes]:
        """Return status and body of the answer to a request that is no watch.

        Raises:
            Refused: the answer is an error.
        """
        review = answer_of_review(call, self.allows)
        if review is not None:
            return 201, review
        if call.method == "GET":
            found = answer_of_discovery(call, list(self.resources))
            if found is not None:
                return 200, found
        place = place_of(call.path)
        served = self._find(place)
        self._authorize(call, place)
        if call.method == "GET" and not place.name:
            return 200, self._list(call, place, served)
        target = Target(call, place, served)
        if call.method == "DELETE" and place.name:
            deleted = self.writer.delete(target)
            return 200, target.shown(deleted) if deleted else target.deleted
        is_new = not place.name or target.ref not in self.storage.of(target.resource)
        stored = await self._one(target)
        return 201 if is_new else 200, target.shown(stored)

    async def _one(self, target: Target) -> Stored:
        match target.call.method, bool(target.place.name):
            case "GET", True:
                return self.writer.find(target)
            case "POST", False:
                return await self.writer.create(target)
            case "PUT" | "PATCH", True:
                return await self.writer.update(target)
            case method, _:
                raise Refused(405, f"{method} is not allowed on {target.call.path}")

    def _list(self, call: Call, place: Place, served: Served) -> bytes:
        selection, resource = self._selection(call, place, served), served.resource.id
        if call.query.get("resourceVersion") == "0":
            objects = self.cached.get(resource, {})
            return self._lists.answer(call, selection, objects, self.reached)
        objects = self.storage.of(resource)
        return self._lists.answer(call, selection, objects, self.storage.revision)

    def watch(self, call: Call) -> Watcher:
        """Open a watch.

        Raises:
            Refused: the answer is an error.
        """
        place = place_of(call.path)
        served = self._find(place)
        self._authorize(call, place, verb="watch")
        selection = self._selection(call, place, served)
        text = call.query.get("resourceVersion", "")
        since = int(text or 0)
        self._opened += 1
        watcher = Watcher(served.resource.id, selection, self._opened)
        if since == 0:
            for ref, stored in sorted(self.cached.get(served.resource.id, {}).items()):
                if selection.has(ref, stored):
                    watcher.put_line(b'{"type":"ADDED","object":%s}' % selection.encode(stored))
        elif since < self.storage.compacted:
            watcher.put_line(expired(since, self.storage.compacted))
            watcher.end()
        else:
            watcher.revision = since
            for change in self.storage.since(since):
                if change.revision <= self.reached and change.resource == served.resource.id:
                    watcher.put(change)
        watcher.revision = max(since, self.reached)
        self._watchers.setdefault(served.resource.id, []).append(watcher)
        return watcher

    def _find(self, place: Place) -> Served:
        try:
            return self._served[place.group, place.version, place.resource]
        except KeyError:
            raise NotServed from None

    def _authorize(self, call: Call, place: Place, verb: str = "") -> None:
        verbs = {"GET": "get" if place.name else "list", "POST": "create", "PUT": "update"}
        verb = verb or verbs.get(call.method, call.method.lower())
        resource = GroupResource(place.group, place.resource)
        if not self.allows(call.client, verb, resource, place.namespace):
            raise Refused(
                403,
                f'{resource} is forbidden: User "{call.client.username}" cannot {verb} resource'
                f' "{place.resource}" in API group "{place.group}"',
            )

    def _selection(self, call: Call, place: Place, served: Served) -> Selection:
        return Selection(
            place.namespace,
            call.query.get("labelSelector", ""),
            call.query.get("fieldSelector", ""),
            kind=served.resource.kind,
            api_version=served.api_version,
            metadata_only=call.metadata_only,
            is_custom=served.rules.custom,
        )
