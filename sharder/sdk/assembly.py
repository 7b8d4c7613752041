"""Wire the work on one main resource: watches, caches, requests and the author's functions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sharder.core.api.meta import PartialObject, Resource
from sharder.core.names import GroupResource
from sharder.runtime.backoff import Rng
from sharder.runtime.clock import Clock
from sharder.sdk.cluster import Cluster
from sharder.sdk.observability.blocked_loop import Activity
from sharder.sdk.observability.measures import Measures, ShardMetrics
from sharder.sdk.reads.cache import ObjectCache, everything
from sharder.sdk.reads.collection import Collected
from sharder.sdk.reads.handoff import Cached, Handoff
from sharder.sdk.reads.owned import Identity, OwnedObjects
from sharder.sdk.reads.progress import Progress
from sharder.sdk.reads.strays import Strays
from sharder.sdk.reconciler import Reconciler
from sharder.sdk.resource_work import OwnObjects, Work
from sharder.sdk.runner import Runner
from sharder.sdk.startup.environment import Settings
from sharder.sdk.workplace import Workplace
from sharder.sdk.writes.events import EVENTS, EventRecorder
from sharder.sdk.writes.recorded import RecordedDocuments


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The dependencies that the work on all resources of a shard shares."""

    cluster: Cluster
    found: Mapping[GroupResource, Resource]
    identity: Identity
    settings: Settings
    holds_lease: Callable[[], bool]
    clock: Clock
    rng: Rng
    metrics: ShardMetrics
    activity: Activity

    def work(self, reconciler: Reconciler) -> Work:
        """Return new work on the reconciler's resource, without state from earlier work."""
        resource = self.found[reconciler.resource]
        main = self._collected(resource, reconciler)
        children = tuple(
            self._collected(self.found[child], reconciler, parent=resource)
            for child in reconciler.owns
        )
        statuses = self.cluster.statuses(resource)
        measures = Measures(
            self.identity.ring, resource.id, self.metrics, self.clock, self.activity
        )
        workplace = Workplace(
            identity=self.identity,
            owned=OwnedObjects(self.identity, when=reconciler.when),
            main=main,
            status=RecordedDocuments(statuses, main.progress, main.strays, main.cache),
            children=children,
            holds_lease=self.holds_lease,
            clock=self.clock,
            events=EventRecorder(self.cluster.documents(EVENTS), self.identity, clock=self.clock),
            kept_finalizer=reconciler.handlers.kept_finalizer,
        )
        return Work(
            workplace,
            Runner(
                reconciler.handlers, workplace, measures=measures, clock=self.clock, rng=self.rng
            ),
            objects=self._objects(main),
            children=[self._objects(child) for child in children],
            handoff=Handoff(
                main=self._cached(main) if main.cache else None,
                children=[self._cached(child) for child in children if child.cache],
            ),
            measures=measures,
            workers=self.settings.workers,
            drain_grace=self.settings.drain_grace,
            clock=self.clock,
            rng=self.rng,
        )

    def _collected(
        self, resource: Resource, reconciler: Reconciler, *, parent: Resource | None = None
    ) -> Collected:
        """Return a resource and its objects.

        With `parent`, the cache keeps only objects that an object of that resource controls.
        """
        progress, cache = Progress(self.clock), None
        if resource.id in reconciler.cache:
            keep = everything if parent is None else controlled_by(parent)
            cache = ObjectCache(progress, keep=keep)
        documents = self.cluster.documents(resource)
        strays = Strays(self.identity, documents.get, progress)
        return Collected(
            resource=resource,
            documents=RecordedDocuments(documents, progress, strays, cache),
            progress=progress,
            strays=strays,
            cache=cache,
        )

    def _objects(self, collected: Collected) -> OwnObjects:
        view = self.cluster.objects if collected.cache is None else self.cluster.whole
        return view(collected.resource, self.identity.selector)

    def _cached(self, collected: Collected) -> Cached:
        objects = self.cluster.objects(collected.resource, self.identity.selector)
        return Cached(now=objects, progress=collected.progress)


def controlled_by(main: Resource) -> Callable[[PartialObject], bool]:
    """Return a predicate: whether an object of the resource `main` controls the given object."""

    def is_child(obj: PartialObject) -> bool:
        parent = obj.metadata.controller
        return parent is not None and (parent.group, parent.kind) == (main.id.group, main.kind)

    return is_child
