"""A controller on client-go that knows nothing of shards, as kube-controller-manager's are.

It elects a leader, lists and watches Websites and ConfigMaps into caches, and makes a ConfigMap
for each Website, once both caches have listed; it marks both.  When a Website leaves its cache, it
takes the ConfigMaps for orphans, and deletes them.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import urlencode

import msgspec
from typing_extensions import override

from sharder.core.api.lease import Lease, format_time
from sharder.core.api.meta import Json, ObjectMeta, PartialObject
from sharder.core.names import ObjectRef
from sharder.kube.client import JSON, MERGE_PATCH
from sharder.runtime.task_pool import race
from sharder.sdk.testing.requests import Client as User
from tests.stage.actors import Actor
from tests.stage.protocol_shard import ListAnswer, WatchLine

if TYPE_CHECKING:
    from tests.stage.stage import Stage

LOCK: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
RENEW_SECONDS: Final = 1.0
DEADLINE_SECONDS: Final = 4.0
LOCK_SECONDS: Final = 6
SITES: Final = "/apis/example.com/v1/websites"
SITE: Final = "/apis/example.com/v1/namespaces/{}/websites/{}"
PAGES: Final = "/api/v1/configmaps"
PAGES_AT: Final = "/api/v1/namespaces/{}/configmaps"
DONE: Final = "example.com/made-by"
SITE_LABEL: Final = "example.com/site"
ORPHANED: Final = "example.com/orphaned"

Cache: TypeAlias = dict[ObjectRef, ObjectMeta]


class Failed(Exception):
    """The answer to a request, with its status."""

    def __init__(self, status: int, content: bytes = b"") -> None:
        super().__init__(status)
        self.status = status
        self.is_conflict = b'"Conflict"' in content


class ForeignController(Actor):
    """The process of the controller in the pod of a shard, which is away without it."""

    def __init__(self, stage: "Stage", pod: str) -> None:
        super().__init__(stage, pod, User())
        self._sites: Cache = {}
        self._pages: Cache = {}
        self._group: asyncio.TaskGroup | None = None
        """Where it works, while it leads."""
        self._tasks = dict[asyncio.Task[None], None]()
        self._working = set[ObjectRef]()
        self._unmade = dict[str, str]()
        """Names of pages that may have been made, by the uid of their site: no answer has come."""
        self._stop = asyncio.Event()
        self._listed = set[str]()
        self._observed = b"", 0.0
        """The Lock as another holds it, and when it changed."""
        self._holder = f"{pod}-{self.rng.getrandbits(32):08x}"
        self._swallows = self.rng.random() < 0.5
        """Whether it repeats no update that conflicts: the event of the other one will come."""
        self._reads_first = self.rng.random() < 0.5
        """Whether it reads the Lock before each renewal, as an old client-go does."""

    @property
    def works(self) -> bool:
        """Whether it leads, and does not stand still."""
        return self._group is not None and not self.process.is_stopped

    @override
    def stop(self) -> None:
        self._stop.set()

    @override
    async def main(self) -> None:
        """Work while it leads; who leads no more ends."""
        await race(self._elect(), self._stop.wait())

    async def _elect(self) -> None:
        while not await self._renewed():  # noqa: ASYNC110 - a Lease is polled
            await asyncio.sleep(RENEW_SECONDS)
        await race(self._keep(), self._lead())

    async def _lead(self) -> None:
        sites, pages = self._follow(SITES, self._sites), self._follow(PAGES, self._pages)
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await race(sites, pages)
            finally:
                self._group = None
                for task in self._tasks:  # in an order that is always the same
                    task.cancel()

    async def _keep(self) -> None:
        """Renew until that failed for too long since the first try, as client-go counts it."""
        until = inf
        while self.clock.monotonic() < until:
            await asyncio.sleep(RENEW_SECONDS)
            until = min(until, self.clock.monotonic() + DEADLINE_SECONDS)
            if await self._renewed():
                until = inf

    async def _renewed(self) -> bool:
        spec: Json = {
            "holderIdentity": self._holder,
            "renewTime": format_time(self.clock.now()),
            "leaseDurationSeconds": LOCK_SECONDS,
        }
        body: Json = {"metadata": {"name": "lock", "namespace": "default"}, "spec": spec}
        if self._group is not None and not self._reads_first:
            with suppress(Failed):
                await self._ask("PUT", f"{LOCK}/lock", body)
                return True
        try:
            lease = msgspec.json.decode(await self._ask("GET", f"{LOCK}/lock"), type=Lease)
            if lease.spec.holder_identity not in {self._holder, "", None} and self._lasts(lease):
                return False
            await self._ask("PUT", f"{LOCK}/lock", body)
        except Failed as failed:
            if failed.status != 404:
                return False
            with suppress(Failed):
                await self._ask("POST", LOCK, body)
                return True
            return False
        return True

    def _lasts(self, lease: Lease) -> bool:
        """Return whether another holder has changed the Lock within its duration."""
        record, now = msgspec.json.encode(lease.spec), self.clock.monotonic()
        if record != self._observed[0]:
            self._observed = record, now
        return now < self._observed[1] + (lease.spec.lease_duration_seconds or 0)

    async def _ask(self, method: str, path: str, body: Json = None, kind: str = JSON) -> bytes:
        """Send a request to the proxy of this pod, whichever runs now."""
        sent = b"" if body is None else msgspec.json.encode(body)
        try:
            async with asyncio.timeout(10):
                proxy = self.stage.proxies[self.name]
                async with proxy.ask(method, path, {"Content-Type": kind}, sent) as answer:
                    content = await answer.read()
        except (OSError, TimeoutError):
            raise Failed(0) from None
        if answer.status >= 300:
            raise Failed(answer.status, content)
        return content

    async def _follow(self, path: str, cache: Cache) -> None:
        """Keep a cache up to date for ever."""
        while True:
            with suppress(Failed, OSError):
                listed = msgspec.json.decode(await self._ask("GET", path), type=ListAnswer)
                now = {each.metadata.ref: each.metadata for each in listed.items}
                for ref in [ref for ref in cache if ref not in now]:
                    self._gone(cache, cache[ref])
                for meta in now.values():
                    self._cached(cache, meta)
                self._listed.add(path)
                await self._watch(path, cache, listed.metadata.resource_version)
            await asyncio.sleep(0.3 + 0.7 * self.rng.random())

    async def _watch(self, path: str, cache: Cache, version: str) -> None:
        """Apply events, over many watches, until one ends in an error."""
        while True:
            query = urlencode({"watch": "true", "resourceVersion": version})
            rest = b""
            proxy = self.stage.proxies[self.name]
            async with proxy.ask("GET", f"{path}?{query}", {}) as answer:
                if answer.status >= 300:
                    raise Failed(answer.status)
                async for chunk in answer.chunks:
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = msgspec.json.decode(line, type=WatchLine)
                        if event.type == "ERROR":
                            raise Failed(410)
                        version = event.object.metadata.resource_version
                        if event.type == "DELETED":
                            self._gone(cache, event.object.metadata)
                        elif event.type != "BOOKMARK":
                            self._seen(cache, event.object.metadata)

    def _seen(self, cache: Cache, meta: ObjectMeta) -> None:
        """Cache an object a moment after it came, as client-go's queues do."""
        delay = 0.1 * self.rng.random()
        self.stage.loop.call_later(delay, self._cached, cache, meta)

    def _cached(self, cache: Cache, meta: ObjectMeta) -> None:
        known = cache.get(meta.ref)
        if known is None or int(known.resource_version) <= int(meta.resource_version):
            cache[meta.ref] = meta
        if cache is self._sites:
            self._enqueue(meta.ref)

    def _gone(self, cache: Cache, meta: ObjectMeta) -> None:
        cache.pop(meta.ref, None)
        parent = self._parent(meta) if cache is self._pages else meta.ref
        if parent is not None:
            self._enqueue(parent)
        if cache is self._sites:
            for page in self._pages_of(meta.uid):
                self._begin(self._adopt_out(page))
            self._begin(self._clean_up(meta))

    async def _adopt_out(self, page: ObjectMeta) -> None:
        """Mark what looks like an orphan, as the controller of Jobs takes finalizers."""
        await asyncio.sleep(2 * self.rng.random())
        if any(
            page.controller and site.uid == page.controller.uid for site in self._sites.values()
        ):
            return  # it is none any more
        path = f"{PAGES_AT.format(page.namespace)}/{page.name}"
        mark: Json = {"metadata": {"annotations": {ORPHANED: self.name}}}
        with suppress(Failed):
            await self._ask("PATCH", path, mark, MERGE_PATCH)

    async def _clean_up(self, site: ObjectMeta) -> None:
        """Delete all pages of a site that is no more, whichever they are."""
        await asyncio.sleep(0.2 * self.rng.random())
        if all(site.uid != each.uid for each in self._sites.values()):
            pages = urlencode({"labelSelector": f"{SITE_LABEL}={site.uid}"})
            with suppress(Failed):
                await self._ask("DELETE", f"{PAGES_AT.format(site.namespace)}?{pages}")

    def _parent(self, page: ObjectMeta) -> ObjectRef | None:
        owner = page.controller
        return None if owner is None else ObjectRef(page.namespace, owner.name)

    def _pages_of(self, uid: str) -> list[ObjectMeta]:
        """Return the pages of a site that nobody has taken for an orphan."""
        pages = (page for page in self._pages.values() if not page.annotation(ORPHANED))
        return [page for page in pages if page.controller and page.controller.uid == uid]

    def _enqueue(self, ref: ObjectRef) -> None:
        if ref not in self._working:
            self._begin(self._work(ref))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        if self._group is None:
            work.close()
        else:
            task = self._group.create_task(work)
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)

    async def _work(self, ref: ObjectRef) -> None:
        """Reconcile until nothing fails."""
        self._working.add(ref)
        try:
            await self._until_done(ref)
        finally:
            self._working.discard(ref)

    async def _until_done(self, ref: ObjectRef) -> None:
        while len(self._listed) < 2:  # noqa: ASYNC110 - as client-go waits for its caches
            await asyncio.sleep(0.1)
        done: ObjectMeta | None = None
        pages: list[ObjectMeta] = []
        while site := self._sites.get(ref):
            seen = self._pages_of(site.uid)
            if site is done and seen == pages:
                return
            try:
                await self._reconcile(site)
                done, pages = site, seen
            except Failed:
                await asyncio.sleep(0.2 + self.rng.random())

    async def _reconcile(self, site: ObjectMeta) -> None:
        if site.deletion_timestamp is not None:
            return
        await asyncio.sleep(0.3 * self.rng.random())
        if not self._pages_of(site.uid):
            owner: Json = {
                "apiVersion": "example.com/v1", "kind": "Website", "name": site.name,
                "uid": site.uid, "controller": True,
            }  # fmt: skip
            new = f"{site.name}-{self.rng.getrandbits(32):08x}"
            name = self._unmade.setdefault(site.uid, new)
            labels: Json = {SITE_LABEL: site.uid}
            body: Json = {"metadata": {"name": name, "labels": labels, "ownerReferences": [owner]}}
            made = await self._ask("POST", PAGES_AT.format(site.namespace), body)
            del self._unmade[site.uid]
            # As an expectation does, until the watch shows it.
            self._cached(self._pages, msgspec.json.decode(made, type=PartialObject).metadata)
        try:
            for page in self._pages_of(site.uid):
                if page.annotation(DONE) != self.name:
                    marks = {**(page.annotations or {}), DONE: self.name}
                    body = {"metadata": {**msgspec.to_builtins(page), "annotations": marks}}
                    await self._ask("PUT", f"{PAGES_AT.format(page.namespace)}/{page.name}", body)
            if site.annotation(DONE) != self.name:
                path = SITE.format(site.namespace, site.name)
                mark: Json = {"metadata": {"annotations": {DONE: self.name}}}
                await self._ask("PATCH", path, mark, MERGE_PATCH)
        except Failed as failed:
            if not failed.is_conflict or not self._swallows:
                raise
