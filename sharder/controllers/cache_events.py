"""Follow changes up ring by ring, and leave the event loop to others in between.

A thousand Leases or namespaces may appear at the same moment, or one namespace may concern a
thousand rings, and each means a snapshot: without a pause in between nobody would answer admission
requests meanwhile.  Others see some rings followed up and some not.

That is safe because there are two sorts of change.  A ring with a change that may protect objects,
such as another spec or a list of Leases, *blocks*: no step of the ring is written until its
snapshot knows about it.  Every other change only widens or narrows what there is to do
(namespaces, counts, a Lease), so that a step which is decided without it is late and not wrong.

Whoever may write Leases can change a ring's members any number of times a second, and each change
takes back what is being decided.  So these are followed up at a bounded pace, ring by ring: work
that takes a while, such as a rescue, comes forward in between.  That a single shard is back, whose
objects are being taken, is not for here: `Membership.is_back` tells it at once.

Who is told what has changed in the world.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sharder.core.api.lease import Lease
from sharder.core.names import ObjectRef, RingName
from sharder.runtime.clock import Clock

REST = 4
"""Times as long as the work took, the loop is left to others: four fifths of it."""

SLICE_SECONDS = 0.01
"""After so much work the loop is left to others, whatever waits."""

PIECE = 64
"""Leases that are told without a look at the time."""

BURST = 8
"""Changes of a ring's Leases that are followed up at once."""

PACE_SECONDS = 2.0
"""Between two more while they go on coming."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How many changes of one ring may be followed up at once; a bucket of tokens."""

    left: float = BURST
    at: float = 0.0

    def then(self, now: float) -> "Pace":
        """Return how many there may be by now."""
        return Pace(min(BURST, self.left + (now - self.at) / PACE_SECONDS), now)


class RebuildThrottle:
    """Keeps what is pending until there is time for it."""

    def __init__(
        self,
        rebuild: Callable[[RingName], None],
        notify: Callable[[Iterable[Lease]], None],
        clock: Clock,
    ) -> None:
        """`rebuild` follows one ring up, `notify` tells of Leases whose rings are followed up."""
        self._rebuild = rebuild
        self._notify = notify
        self._clock = clock
        self._rests_until = 0.0
        # Dictionaries, because they are ordered: who came first is served first.
        self._blocking: dict[RingName, None] = {}
        self._others: dict[RingName, None] = {}
        self._leases: list[Lease] = []
        self._paced: set[RingName] = set()
        """Rings that wait for their pace."""
        self._paces: dict[RingName, Pace] = {}
        self._with: dict[RingName, dict[ObjectRef, Lease]] = {}
        """Leases that are told with their ring."""
        self._asked: set[RingName] = set()
        """Rings of which somebody was told that they are owed, and waits for the work."""
        self._late = asyncio.Event()
        self._began = False
        self.caught_up = False
        """Whether everything has been followed up once."""

    def begin(self, rings: Iterable[RingName]) -> None:
        """Follow up these rings; what was added before is forgotten, for they know it."""
        self._began = True
        self.add(rings)

    def add(self, affected: Iterable[RingName], *leases: Lease) -> None:
        """Follow a change up, of Leases or another; no step of the rings stands until then."""
        self._blocking.update(dict.fromkeys(affected))
        self._leases.extend(leases)
        self._start()

    def add_harmless(self, affected: Iterable[RingName]) -> None:
        """Follow a change up by which no step that was decided without it becomes wrong."""
        self._others.update(dict.fromkeys(affected))
        self._start()

    def add_paced(self, affected: Iterable[RingName], lease: Lease) -> None:
        """Follow a change of a Lease up that is as harmless, however many there are."""
        affected = frozenset(affected)
        for ring in affected:
            self._with.setdefault(ring, {})[lease.metadata.ref] = lease
        if not affected:
            self._leases.append(lease)
        self._paced |= affected
        self._let_pass(affected)
        self._start()

    def notify_soon(self, leases: Iterable[Lease]) -> None:
        """Tell of Leases whose ring is being followed up just now."""
        self._leases.extend(leases)

    def is_pending(self, ring: RingName) -> bool:
        """Tell whether the ring waits; who asked will need to be told when it does no more."""
        if ring not in self._blocking:
            return False
        self._asked.add(ring)
        return True

    def was_asked(self, ring: RingName) -> bool:
        """Tell, once, whether somebody heard that the ring waits."""
        doubted = ring in self._asked
        self._asked.discard(ring)
        return doubted

    async def run(self) -> None:
        """Do what had to wait, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._catch_up(), name="late rings")
            group.create_task(self._keep_pace(), name="paced rings")

    async def _keep_pace(self) -> None:
        while True:
            await self._clock.sleep(PACE_SECONDS / 4)
            now = self._clock.monotonic()
            # A full bucket need not be remembered.
            self._paces = {ring: p for ring, p in self._paces.items() if p.then(now).left < BURST}
            self._let_pass(sorted(self._paced))
            if self._others:
                self._start()

    def _let_pass(self, rings: Iterable[RingName]) -> None:
        """Follow those rings up whose pace allows it."""
        now = self._clock.monotonic()
        for ring in rings:
            pace = self._paces.get(ring, Pace(at=now)).then(now)
            if pace.left >= 1:
                self._paces[ring] = replace(pace, left=pace.left - 1)
                self._paced.discard(ring)
                self._others[ring] = None

    async def _catch_up(self) -> None:
        while True:
            await self._late.wait()
            await self._clock.sleep(self._rest())
            self._late.clear()
            self._work()

    def _start(self) -> None:
        """Work at once, unless the loop belongs to others."""
        if not self._began:
            self._blocking, self._others, self._leases = {}, {}, []
            self._with.clear()
        elif (self._blocking or self._others) and self._rest():
            self._late.set()
        else:
            self._work()

    def _rest(self) -> float:
        """Return the seconds that still belong to others; at the start there are no others."""
        if not self.caught_up:
            return 0.0
        return max(0.0, self._rests_until - self._clock.monotonic())

    def _work(self) -> None:
        """Follow up as many rings as fit into a slice, one at least."""
        began = now = self._clock.monotonic()
        while (self._blocking or self._others) and now - began < SLICE_SECONDS:
            if not self._blocking:
                self._notify_leases()
            name = next(iter(self._blocking or self._others))
            self._rebuild(name)
            # Not before: a ring that could not be followed up must not stand.
            self._blocking.pop(name, None)
            self._others.pop(name, None)
            self._paced.discard(name)
            self._notify(self._with.pop(name, {}).values())
            now = self._clock.monotonic()
        while self._leases and not self._blocking and now - began < SLICE_SECONDS:
            self._notify_leases()
            now = self._clock.monotonic()
        self._rests_until = now + REST * (now - began)
        if self._blocking or self._others or self._leases:
            self._late.set()
        else:
            self.caught_up = True

    def _notify_leases(self) -> None:
        """Tell of some that wait: a list may bring thousands."""
        leases, self._leases = self._leases[:PIECE], self._leases[PIECE:]
        if leases:
            self._notify(leases)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """Who wants to know that something changed; called on the event loop, must not block."""

    ring: Callable[[RingName], None]
    """The ring or its members changed, or it is gone; its namespaces may have, too."""
    steps: Callable[[RingName], None]
    """The same, and any object of the ring may need another step."""
    scope: Callable[[RingName, frozenset[str]], None]
    """Nothing but the ring's namespaces changed; these have come into its scope."""
    lease: Callable[[ObjectRef], None]
    """A Lease was written, or is gone."""


class Subscribers:
    """All of them, in the order in which they came."""

    def __init__(self) -> None:
        self._all: list[Subscriber] = []

    @contextmanager
    def adding(self, subscriber: Subscriber) -> Iterator[None]:
        """Tell `subscriber` too while the body runs."""
        self._all.append(subscriber)
        try:
            yield
        finally:
            self._all.remove(subscriber)

    def notify_ring(self, name: RingName, *, steps: bool) -> None:
        """Tell that the ring has changed, and with `steps` that objects may need another step."""
        for subscriber in self._all:
            subscriber.ring(name)
            if steps:
                subscriber.steps(name)

    def notify_scope(self, name: RingName, come: frozenset[str]) -> None:
        """Tell that the ring selects other namespaces, `come` among them, and is else the same."""
        for subscriber in self._all:
            subscriber.scope(name, come)

    def notify_leases(self, leases: Iterable[Lease]) -> None:
        """Tell of Leases that were written, or are gone."""
        for subscriber in self._all:
            for lease in leases:
                subscriber.lease(lease.metadata.ref)
