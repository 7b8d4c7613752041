"""An API server in memory: create, read, list, watch, patch and delete.

It follows the rules of a real one as far as shards depend on them; the contract tests play the
same sequences on both.  It runs no controllers.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TypeAlias

import msgspec

from sharder.core.api.meta import Json, Resource
from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk.testing.requests import Call, Client, NotServed, Place, Refused, place_of
from sharder.sdk.testing.storage import Change, Storage, Stored
from sharder.sdk.testing.watching import Selection, Watcher, line
from sharder.sdk.testing.writer import Target, Writer

Allows: TypeAlias = Callable[[Client, str, GroupResource, str], bool]
"""Called with client, verb, resource and namespace (empty: all namespaces)."""


def everything(_client: Client, _verb: str, _resource: GroupResource, _namespace: str) -> bool:
    """Allow everything."""
    return True


class ApiServer:
    """One API server; several can share a storage."""

    def __init__(
        self, storage: Storage, resources: Iterable[Resource], *, now: Callable[[], datetime]
    ) -> None:
        self.storage = storage
        self.writer = Writer(storage, now)
        self.allows: Allows = everything
        """Whether a client has a right."""
        self.now = now
        self._served: dict[tuple[str, str, str], Resource] = {}
        for resource in resources:
            self.serve(resource)
        self.watchers: dict[GroupResource, list[Watcher]] = {}
        """The open watches."""
        storage.observers.append(self.deliver)

    def serve(self, resource: Resource) -> None:
        """Serve a resource from now on."""
        key = resource.id.group, resource.version, resource.id.resource
        self._served[key] = resource

    def withdraw(self, resource: GroupResource, version: str) -> None:
        """Serve a version of a resource no longer; its watches end."""
        self._served.pop((resource.group, version, resource.resource), None)
        for watcher in self.watchers.pop(resource, []):
            watcher.end()

    @property
    def resources(self) -> list[Resource]:
        """The resources in the order in which they came."""
        return [*self._served.values()]

    @property
    def reached(self) -> int:
        """The revision that watches, and lists from revision 0, show."""
        return self.storage.revision

    def shown(self, resource: GroupResource) -> Mapping[ObjectRef, Stored]:
        """Return the objects that watches, and lists from revision 0, show."""
        return self.storage.of(resource)

    def deliver(self, change: Change) -> None:
        """Show a change to all watches."""
        if watchers := self.watchers.get(change.resource):
            for watcher in watchers:
                watcher.put(change)
            self.watchers[change.resource] = [each for each in watchers if not each.ended]

    def hang_up(self, *resources: GroupResource, error: Exception | None = None) -> None:
        """End the watches of these resources, or all, as the API server does after a while."""
        for resource in resources or tuple(self.watchers):
            for watcher in self.watchers.get(resource, ()):
                watcher.end(error)

    async def answer(self, call: Call) -> tuple[int, bytes]:
        """Return status and body of the answer to a request that is no watch.

        Raises:
            Refused: the answer is an error.
        """
        if call.method == "GET" and (found := discovered(call.path, self.resources)):
            return 200, msgspec.json.encode(found)
        place = place_of(call.path)
        served = self._find(place)
        self._authorize(call, place)
        if call.method == "GET" and not place.name:
            return 200, self.list(call, Selection(call, place, served), served.id)
        target = Target(call, place, served)
        match call.method, bool(place.name):
            case "GET", True:
                return 200, target.shown(self.writer.find(target))
            case "POST", False:
                return 201, target.shown(await self.writer.create(target))
            case "PUT" | "PATCH", True:
                is_new = target.ref not in self.storage.of(target.resource)
                return 201 if is_new else 200, target.shown(await self.writer.update(target))
            case "DELETE", True:
                return 200, target.shown(self.writer.delete(target))
            case method, _:
                raise Refused(405, f"{method} is not allowed on {call.path}")

    def list(self, call: Call, selection: Selection, resource: GroupResource) -> bytes:
        """Return all objects that match; a limit is ignored, which the API allows."""
        is_cached = call.query.get("resourceVersion") == "0"
        objects = self.shown(resource) if is_cached else self.storage.of(resource)
        revision = self.reached if is_cached else self.storage.revision
        matching = sorted(item for item in objects.items() if selection.has(*item))
        return page_of(selection, [each for _, each in matching], resourceVersion=str(revision))

    def watch(self, call: Call) -> Watcher:
        """Open a watch.

        Raises:
            Refused: the answer is an error.
        """
        place = place_of(call.path)
        served = self._find(place)
        self._authorize(call, place, verb="watch")
        resource, selection = served.id, Selection(call, place, served)
        since = int(call.query.get("resourceVersion") or 0)
        watcher = Watcher(resource, selection)
        if since == 0:
            for ref, stored in sorted(self.shown(resource).items()):
                if selection.has(ref, stored):
                    watcher.put_line(line(b"ADDED", selection.encode(stored)))
        elif since < self.storage.compacted:
            watcher.put_line(line(b"ERROR", Refused(410, "too old resource version").status))
            watcher.end()
        else:
            watcher.revision = since
            for change in self.storage.since(since):
                if change.revision <= self.reached and change.resource == resource:
                    watcher.put(change)
        watcher.revision = max(since, self.reached)
        self.watchers.setdefault(resource, []).append(watcher)
        return watcher

    def _find(self, place: Place) -> Resource:
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


def page_of(selection: Selection, items: Iterable[Stored], **metadata: str) -> bytes:
    """Return the answer to a list."""
    return b'{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[%s]}' % (
        selection.kind.encode(),
        selection.shown_version.encode(),
        msgspec.json.encode(metadata),
        b",".join(map(selection.item, items)),
    )


def discovered(path: str, resources: Iterable[Resource]) -> Json:
    """Return the versions of a group or the resources of a version, None for another path.

    Raises:
        Refused: the group or version is not served.
    """
    root, *parts = path.strip("/").split("/")
    if (root, len(parts)) not in {("api", 1), ("apis", 1), ("apis", 2)}:
        return None
    group = parts[0] if root == "apis" else ""
    served = [each for each in resources if each.id.group == group]
    if root == "apis" and len(parts) == 1 and served:
        # The latest version is the preferred one.
        names = dict.fromkeys(each.version for each in reversed(served))
        versions: list[Json] = [{"version": name} for name in names]
        return {"kind": "APIGroup", "versions": versions, "preferredVersion": versions[0]}
    listed: list[Json] = [_described(each) for each in served if each.version == parts[-1]]
    if not listed:
        raise NotServed
    return {"kind": "APIResourceList", "resources": listed}


def _described(resource: Resource) -> Json:
    return {
        "name": resource.id.resource,
        "kind": resource.kind,
        "namespaced": resource.namespaced,
        "singularName": resource.singular or resource.kind.lower(),
        "shortNames": list(resource.short_names),
    }
