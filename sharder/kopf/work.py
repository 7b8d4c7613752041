"""The objects that this process may work on, and what kopf runs on them.

kopf handles the events of one object one after the other, and each in the same order: `on.event`
handlers, daemons and timers, all other handlers, and at last one patch.  So `notice` sees each
event first, and what `acknowledge` adds to the patch is applied when no handler runs.

All methods are called on kopf's event loop, except where they say otherwise.
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

from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk.reads.owned import Identity

if TYPE_CHECKING:
    from kopf._core.actions.execution import Handler, LifeCycleFn
    from kopf._core.intents.handlers import SpawningHandler

_log = logging.getLogger(__name__)

H = TypeVar("H", bound="SpawningHandler")


class Work:
    """What one kopf process does with the objects of its shard; objects are named by uid."""

    def __init__(
        self,
        identity: Identity,
        resources: Collection[GroupResource],
        *,
        lifecycle: "LifeCycleFn",
        holds_lease: Callable[[], bool],
        drain_grace: float,
    ) -> None:
        """`lifecycle` chooses among the handlers of an object that is ours.

        `holds_lease` returns whether the Lease is certainly ours now, and `drain_grace` says how
        long (seconds) a daemon can continue after its object was moved without a drain.
        """
        self._identity = identity
        self._resources = frozenset(resources)
        self._lifecycle = lifecycle
        self._holds_lease = holds_lease
        self._drain_grace = drain_grace
        self._present = set[str]()
        self._ours = set[str]()
        self._releasing = set[str]()
        self._running: dict[str, asyncio.Timeout | None] = {}
        self._daemons: dict[str, set[asyncio.Task[object]]] = {}

    @property
    def objects(self) -> int:
        """How many objects the shard has, as kopf has last handled them; from any thread."""
        return len(self._present)

    @property
    def is_idle(self) -> bool:
        """Whether no handler, daemon or timer runs."""
        return not self._running and not self._daemons

    def is_running(self, uid: str) -> bool:
        """Return whether a handler runs that is no daemon; from any thread."""
        return uid in self._running

    def notice(
        self,
        *,
        type: str,
        uid: str,
        labels: kopf.Labels,
        name: str,
        namespace: str | None,
        **_: Any,
    ) -> bool:
        """Note whether an object is ours, and return whether it drains.

        `DELETED` also means that the object was moved.  This is the filter of `acknowledge`: kopf
        logs each handler that it calls.
        """
        is_present = type != "DELETED" and self._is_owned(labels)
        is_draining = is_present and self._identity.drain_label in labels
        (self._present.add if is_present else self._present.discard)(uid)
        if is_present and not is_draining:
            self._ours.add(uid)
            self._releasing.discard(uid)
            return False
        self._ours.discard(uid)
        if is_draining:
            return True
        if uid in self._releasing:
            self._releasing.discard(uid)
            _log.info("drain of %s acknowledged", ObjectRef(namespace or "", name))
        if uid in self._daemons:
            # kopf has stopped them, and forgets them.
            asyncio.get_running_loop().call_later(self._drain_grace, self._end_daemons, uid)
        return False

    async def acknowledge(self, *, uid: str, patch: kopf.Patch, **_: Any) -> None:
        """Acknowledge the drain of an object at the end of this cycle, if nothing runs on it."""
        patch.fns.append(functools.partial(self._release, uid))

    def choose(
        self,
        handlers: kopf.lifecycles.Handlers,
        **kwargs: Any,
    ) -> kopf.lifecycles.Handlers:
        """Return which handlers to run now: none on an object that drains or has left.

        kopf keeps the progress of the others, and the next owner continues.  A filter would not
        do: kopf takes a change for handled, and removes its finalizer, where no handler matches.
        """
        chosen, uid = self._lifecycle(handlers, **kwargs), kwargs["uid"]
        if (
            not self._is_sharded(kwargs["resource"]) or uid in self._running
        ):  # the latter: sub-handlers
            return chosen
        if not self._may_work(uid):
            return []
        return [self._observed(handler, uid) for handler in chosen]

    def guard(self, handler: H) -> H:
        """Return a daemon or timer that kopf stops when its object drains, and that is awaited."""
        when, initial_delay = handler.when, handler.initial_delay

        def matches(**kwargs: Any) -> bool:
            if self._is_sharded(kwargs["resource"]) and not self._may_work(kwargs["uid"]):
                return False
            return when is None or when(**kwargs)

        def begin(**kwargs: Any) -> float:
            if self._is_sharded(kwargs["resource"]):
                self._await(kwargs["uid"])
            return (initial_delay(**kwargs) if callable(initial_delay) else initial_delay) or 0

        return replace(handler, when=matches, initial_delay=begin)

    def cancel(self, uid: str) -> None:
        """Cancel what runs on a draining object, if it is asynchronous; it can clean up."""
        scope = self._running.get(uid)
        if scope is not None and scope.when() is None:
            scope.reschedule(asyncio.get_running_loop().time())
        self._end_daemons(uid)

    def _is_sharded(self, resource: kopf.Resource) -> bool:
        return GroupResource(resource.group, resource.plural) in self._resources

    def _is_owned(self, labels: kopf.Labels) -> bool:
        return labels.get(self._identity.owner_label) == self._identity.shard

    def _may_work(self, uid: str) -> bool:
        return uid in self._ours and self._holds_lease()

    def _release(self, uid: str, body: kopf.RawBody) -> None:
        """Remove both labels, if nothing runs on the object and it still drains.

        kopf guards the patch by the resourceVersion of `body`.
        """
        labels = body["metadata"].get("labels", {})
        owner, drain = self._identity.owner_label, self._identity.drain_label
        is_busy = uid in self._running or uid in self._daemons
        if is_busy or drain not in labels or not self._is_owned(labels) or not self._holds_lease():
            return
        del labels[owner], labels[drain]
        self._releasing.add(uid)

    def _observed(self, handler: "Handler", uid: str) -> "Handler":
        """Return the handler with a function that is known to run, and can be cancelled."""
        function: Any = handler.fn
        if not _is_async(function):

            def run(**kwargs: Any) -> object:
                with self._run(uid, None):
                    return function(**kwargs)

            return replace(handler, fn=run)

        # kopf would count a cancelled attempt, so a handler with a limit runs to its end.
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

    def _await(self, uid: str) -> None:
        """Remember the task of a daemon or timer, which also writes its result."""
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
        """Cancel the daemons of an object that is not ours."""
        if uid not in self._ours:
            for task in self._daemons.get(uid, ()):
                task.cancel()


def _is_async(function: Any) -> bool:
    """Return whether kopf awaits the function, as kopf decides it."""
    while isinstance(function, functools.partial) or hasattr(function, "__wrapped__"):
        is_partial = isinstance(function, functools.partial)
        function = function.func if is_partial else function.__wrapped__
    return inspect.iscoroutinefunction(function)
