"""Wire the controller of one main resource: watches, caches and the author's functions."""

from collections.abc import Callable
from dataclasses import dataclass

from sharder.core.api.meta import PartialObject, Resource
from sharder.sdk.controller import Controller
from sharder.sdk.measures import Measures
from sharder.sdk.reads.cache import ObjectCache, everything
from sharder.sdk.reads.collection import Collected
from sharder.sdk.reads.handoff import Cached, Handoff
from sharder.sdk.reads.owned import OwnedObjects
from sharder.sdk.reads.progress import Progress
from sharder.sdk.reads.strays import Strays
from sharder.sdk.reconciler import Reconciler
from sharder.sdk.resource_context import ResourceContext
from sharder.sdk.runner import Runner
from sharder.sdk.writes.events import EVENTS, EventRecorder
from sharder.shard.context import ShardContext
from sharder.shard.watched import Watched


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """Makes the controllers of a shard."""

    context: ShardContext
    holds_lease: Callable[[], bool]

    def controller(self, reconciler: Reconciler) -> Controller:
        """Return a new controller of the reconciler's resource, without any earlier state."""
        context, clock, rng = self.context, self.context.clock, self.context.rng
        resource, identity = context.found[reconciler.resource], context.identity
        main = self._collected(resource, reconciler)
        children = tuple(
            self._collected(context.found[child], reconciler, parent=resource)
            for child in reconciler.owns
        )
        measures = Measures(identity.ring, resource.id, context.metrics, clock)
        of_resource = ResourceContext(
            identity=identity,
            owned=OwnedObjects(identity, when=reconciler.needs_reconcile),
            main=main,
            children=children,
            holds_lease=self.holds_lease,
            clock=clock,
            events=EventRecorder(context.cluster.documents(EVENTS), identity, clock=clock),
            kept_finalizer=reconciler.kept_finalizer,
        )
        return Controller(
            of_resource,
            Runner(reconciler, of_resource, measures=measures, rng=rng),
            handoff=Handoff(
                main=self._cached(main) if main.cache else None,
                children=[self._cached(child) for child in children if child.cache],
            ),
            measures=measures,
            workers=context.settings.workers,
            drain_grace=context.settings.drain_grace,
            clock=clock,
            rng=rng,
        )

    def _collected(
        self, resource: Resource, reconciler: Reconciler, *, parent: Resource | None = None
    ) -> Collected:
        """Return a resource and its objects.

        With `parent`, the cache keeps only objects that an object of that resource controls.
        """
        cluster, identity = self.context.cluster, self.context.identity
        clock, rng = self.context.clock, self.context.rng
        progress, cache = Progress(clock), None
        if resource.id in reconciler.cache:
            keep = everything if parent is None else controlled_by(parent)
            cache = ObjectCache(progress, keep=keep)
        view = cluster.objects if cache is None else cluster.whole
        objects, documents = view(resource, identity.selector), cluster.documents(resource)
        strays = Strays(identity, documents.get, progress)
        return Collected(
            resource=resource,
            documents=documents,
            objects=objects,
            watched=Watched(objects, resource, cluster.find, clock=clock, rng=rng),
            progress=progress,
            strays=strays,
            cache=cache,
        )

    def _cached(self, collected: Collected) -> Cached:
        labels = self.context.identity.selector
        objects = self.context.cluster.objects(collected.resource, labels)
        return Cached(now=objects, progress=collected.progress)


def controlled_by(main: Resource) -> Callable[[PartialObject], bool]:
    """Return a predicate: whether an object of the resource `main` controls the given object."""

    def is_child(obj: PartialObject) -> bool:
        parent = obj.metadata.controller
        return parent is not None and (parent.group, parent.kind) == (main.id.group, main.kind)

    return is_child
