"""The objects that this process can work on, and the handlers that kopf runs on them.

kopf handles the events of one object one after the other.  For each event it runs `on.event`
handlers first, then daemons and timers, then all other handlers, and finally sends one patch.  So
`notice` sees each event first, and the change that `acknowledge` adds to the patch is sent when no
handler runs.

Call all methods on kopf's event loop, unless they are marked as thread-safe.
"""

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import kopf

from sharder.core.api.meta import is_older
from sharder.core.names import GroupResource, ObjectRef
from sharder.shard.identity import Identity, Ownership

if TYPE_CHECKING:
    from kopf._core.actions.execution import Handler, LifeCycleFn
    from kopf._core.intents.handlers import SpawningHandler

_log = logging.getLogger(__name__)

H = TypeVar("H", bound="SpawningHandler")


class HandlerGate:
    """The work of one kopf process on the objects of its shard; an object is named by its uid."""

    def __init__(
        self,
        identity: Identity,
        resources: Collection[GroupResource],
        *,
        lifecycle: "LifeCycleFn",
        holds_lease: Callable[[], bool],
        drain_grace: float,
    ) -> None:
        """Wrap the operator's `lifecycle`, which chooses among the handlers of an object.

        `holds_lease` returns whether this process certainly holds the Lease now.  `drain_grace` is
        how long (seconds) a daemon can continue after its object was moved without a drain.
        """
        self._identity = identity
        self._resources = frozenset(resources)
        self._lifecycle = lifecycle
        self._holds_lease = holds_lease
        self._drain_grace = drain_grace
        self._objects = dict[str, Ownership]()
        """Objects that this shard owns, including draining objects."""
        self._versions = dict[str, str]()
        """The resourceVersion of each of them, by the event that kopf handled last."""
        self._running: dict[str, asyncio.Timeout | None] = {}
        """The objects on which a handler runs; None if the handler cannot be cancelled."""
        self._daemons: dict[str, set[asyncio.Task[object]]] = {}
        """The running daemons and timers of each object."""

    @property
    def is_idle(self) -> bool:
        """Whether no handler, daemon or timer runs."""
        return not self._running and not self._daemons

    def is_running(self, uid: str) -> bool:
        """Return whether a handler, other than a daemon or timer, runs on it; thread-safe."""
        return uid in self._running

    def notice(
        self, *, type: str, uid: str, labels: kopf.Labels, meta: kopf.Meta, **_: Any
    ) -> bool:
        """Note whether this shard owns the object, and return whether the object drains.

        `DELETED` can also mean that the object was moved.  This method is the filter of
        `acknowledge`, because kopf would log a call of `acknowledge` for each event.
        """
        if type != "DELETED" and self._is_owned(labels):
            is_draining = self._identity.drain_label in labels
            self._objects[uid] = Ownership.DRAINING if is_draining else Ownership.OURS
            self._versions[uid] = meta.get("resourceVersion", "")
            return is_draining
        self._left(uid)
        return False

    def forget(self, uids: Collection[str], version: str) -> None:
        """Forget objects that have gone by `version`, unless kopf has seen them since."""
        for uid in uids:
            if not is_older(version, self._versions.get(uid, "")):
                self._left(uid)

    def _left(self, uid: str) -> None:
        self._objects.pop(uid, None)
        self._versions.pop(uid, None)
        if uid in self._daemons:
            # kopf has requested the daemons to stop, but does not wait until they have ended.
            asyncio.get_running_loop().call_later(self._drain_grace, self._end_daemons, uid)

    async def acknowledge(self, *, uid: str, patch: kopf.Patch, **_: Any) -> None:
        """Acknowledge the drain at the end of kopf's cycle, if nothing runs on the object then."""
        patch.fns.append(functools.partial(self._release, uid))

    def choose(
        self,
        handlers: kopf.lifecycles.Handlers,
        **kwargs: Any,
    ) -> kopf.lifecycles.Handlers:
        """Return the handlers to run now: none on an object that drains or has left.

        kopf keeps the progress of the handlers that do not run, and the next owner continues.
        Filters on the handlers would be wrong: if no handler matches, kopf considers the change
        handled, and removes its finalizer.
        """
        chosen, uid = self._lifecycle(handlers, **kwargs), kwargs["uid"]
        # If a handler of the object runs already, these are the sub-handlers of this handler.
        if not self._is_sharded(kwargs["resource"]) or uid in self._running:
            return chosen
        if not self._may_work(uid):
            return []
        return [self._observed(handler, uid) for handler in chosen]

    def guard(self, handler: H) -> H:
        """Wrap a daemon or timer: kopf stops it when its object drains, and its end is awaited."""
        when, initial_delay = handler.when, handler.initial_delay

        def matches(**kwargs: Any) -> bool:
            if self._is_sharded(kwargs["resource"]) and not self._may_work(kwargs["uid"]):
                return False
            return when is None or when(**kwargs)

        def begin(**kwargs: Any) -> float:
            if self._is_sharded(kwargs["resource"]):
                self._track_daemon(kwargs["uid"])
            return (initial_delay(**kwargs) if callable(initial_delay) else initial_delay) or 0

        return replace(handler, when=matches, initial_delay=begin)

    def cancel(self, uid: str) -> None:
        """Cancel the async handler and the daemons of a draining object; they can clean up."""
        scope = self._running.get(uid)
        if scope is not None and scope.when() is None:
            scope.reschedule(asyncio.get_running_loop().time())
        self._end_daemons(uid)

    def _is_sharded(self, resource: kopf.Resource) -> bool:
        return GroupResource(resource.group, resource.plural) in self._resources

    def _is_owned(self, labels: kopf.Labels) -> bool:
        return labels.get(self._identity.owner_label) == self._identity.shard

    def _may_work(self, uid: str) -> bool:
        return self._objects.get(uid) is Ownership.OURS and self._holds_lease()

    def _release(self, uid: str, body: kopf.RawBody) -> None:
        """Remove both labels, if nothing runs on the object and the object still drains.

        kopf guards the patch by the resourceVersion of `body`.
        """
        metadata = body["metadata"]
        labels = metadata.get("labels", {})
        owner, drain = self._identity.owner_label, self._identity.drain_label
        is_busy = uid in self._running or uid in self._daemons
        if is_busy or drain not in labels or not self._is_owned(labels) or not self._holds_lease():
            return
        del labels[owner], labels[drain]
        ref = ObjectRef(metadata.get("namespace", ""), metadata.get("name", ""))
        _log.info("acknowledging the drain of %s", ref)

    def _observed(self, handler: "Handler", uid: str) -> "Handler":
        """Wrap the handler: `_running` shows it, and an async handler can be cancelled."""
        function: Any = handler.fn
        if not _is_async(function):

            def run(**kwargs: Any) -> object:
                with self._run(uid, None):
                    return function(**kwargs)

            return replace(handler, fn=run)

        # kopf would count a cancelled attempt, so a handler with such a limit runs to its end.
        has_limit = handler.retries is not None or handler.timeout is not None

        async def run_async(**kwargs: Any) -> object:
            scope = asyncio.timeout(None)
            try:
                async with scope:
                    with self._run(uid, None if has_limit else scope):
                        return await function(**kwargs)
            except TimeoutError:
                if not scope.expired():
                    raise
                text = "cancelled, because the object is draining; the next owner continues"
                raise kopf.TemporaryError(text, delay=0) from None

        return replace(handler, fn=run_async)

    @contextmanager
    def _run(self, uid: str, scope: asyncio.Timeout | None) -> Iterator[None]:
        self._running[uid] = scope
        try:
            yield
        finally:
            self._running.pop(uid, None)

    def _track_daemon(self, uid: str) -> None:
        """Track the current task, which runs a daemon or timer and then writes its result."""
        task = asyncio.current_task()
        if task is None:
            return
        tasks = self._daemons.setdefault(uid, set())
        tasks.add(task)

        def ended(task: asyncio.Task[object]) -> None:
            tasks.discard(task)
            if not tasks and self._daemons.get(uid) is tasks:
                del self._daemons[uid]

        task.add_done_callback(ended)

    def _end_daemons(self, uid: str) -> None:
        """Cancel the daemons of an object, unless this shard owns it and it does not drain."""
        if self._objects.get(uid) is not Ownership.OURS:
            for task in self._daemons.get(uid, ()):
                task.cancel()


def _is_async(function: Any) -> bool:
    """Return whether kopf awaits the function, by the same rule as kopf."""
    while isinstance(function, functools.partial) or hasattr(function, "__wrapped__"):
        is_partial = isinstance(function, functools.partial)
        function = function.func if is_partial else function.__wrapped__
    return inspect.iscoroutinefunction(function)
