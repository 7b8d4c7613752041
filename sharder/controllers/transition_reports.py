"""Report transitions as Events on the ring and in the log, at a limited rate."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from sharder.controllers.cache import ClusterCache
from sharder.controllers.ring_status import about
from sharder.core.names import RingName
from sharder.core.status.transition_messages import (
    Allowance,
    Kind,
    Number,
    Transition,
    merge,
    sentence,
)
from sharder.ports import Recorder
from sharder.runtime.clock import Clock
from sharder.runtime.task_pool import batch

BURST, PAUSE_SECONDS = 6, 10.0
"""Sentences of one kind about one ring: `BURST` at once, then one per `PAUSE_SECONDS`."""

OVERALL_BURST, OVERALL_SECONDS = 100, 0.25
"""The same limits for all sentences about all rings; the most important kinds come first."""

CONCURRENCY: Final = 8
"""Events that are sent at the same time."""

_log = logging.getLogger(__name__)


class Listener(Protocol):
    """Gets each transition when it is reported."""

    def happened(self, ring: RingName, transition: Transition) -> None:
        """Record the transition; this must not block."""
        ...


@dataclass(slots=True)
class _Pending:
    """Transitions of one ring, one of each kind."""

    transitions: dict[Kind, Transition] = field(default_factory=dict)
    allowances: dict[Kind, Allowance] = field(default_factory=dict)


class TransitionReports:
    """The transitions of each ring that still have to be reported."""

    def __init__(
        self,
        *,
        cache: ClusterCache,
        recorder: Recorder,
        listeners: Sequence[Listener],
        clock: Clock,
    ) -> None:
        """`listeners` get each transition that is reported."""
        self._cache = cache
        self._recorder = recorder
        self._listeners = listeners
        self._clock = clock
        self._rings: dict[RingName, _Pending] = {}
        self._overall = Allowance(OVERALL_BURST, OVERALL_SECONDS)

    def add(self, ring: RingName, transition: Transition) -> None:
        """Report a transition with the next `send`, in one sentence with others of its kind."""
        pending = self._rings.setdefault(ring, _Pending()).transitions
        known = pending.get(transition.kind)
        pending[transition.kind] = transition if known is None else merge(known, transition)

    def forget(self, ring: RingName) -> None:
        """Report nothing more about a deleted ring."""
        self._rings.pop(ring, None)

    async def send(self) -> None:
        """Report as many transitions as allowed, the most important ones first."""
        reported = list(self._allowed())
        for ring, transition in reported:
            fields: dict[str, str | Number] = {"ring": ring, **transition.numbers}
            level = logging.WARNING if transition.is_warning else logging.INFO
            if transition.shards:
                fields["shard"] = transition.who
            _log.log(level, transition.kind.words, extra=fields)
            for listener in self._listeners:
                listener.happened(ring, transition)
        async with batch(CONCURRENCY) as requests:
            for ring, transition in reported:
                await requests.add(self._record(ring, transition))

    def _allowed(self) -> Iterator[tuple[RingName, Transition]]:
        """Yield and remove the transitions that can be reported now."""
        now = self._clock.monotonic()
        waiting = [(ring, each) for ring, each in self._rings.items() if each.transitions]
        for kind in Kind:
            for ring, each in waiting:
                if kind not in each.transitions:
                    continue
                allowance = each.allowances.setdefault(kind, Allowance(BURST, PAUSE_SECONDS))
                if allowance.allows(now) and self._overall.allows(now):
                    allowance.take()
                    self._overall.take()
                    yield ring, each.transitions.pop(kind)

    async def _record(self, ring: RingName, transition: Transition) -> None:
        snapshot = self._cache.snapshot(ring)
        if snapshot is not None:
            await self._recorder.record(
                about(snapshot.ring),
                str(transition.kind),
                sentence(transition),
                warning=transition.is_warning,
            )
