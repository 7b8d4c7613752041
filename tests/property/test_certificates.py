"""The promise of the certificates: what is served, the API server trusts, whatever happens.

Replicas look in any order, are killed and started, lose answers and the lead in the middle of
rotations; strangers ask for rotations, delete the Secret or spoil it.  Two things are taken for
granted: every replica that runs looks within the overlap, and one that runs looks before another
one starts.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from sharder.controllers.certificates import POLL_SECONDS, Certificates
from sharder.core.errors import ApiError, Unavailable
from sharder.tls.bundle import CertificateBundle, problem
from sharder.tls.rotation import Phase, Request, phase_of
from tests.support.certificates import OVERLAP, POLICY, Scene, trusts
from tests.support.effort import share

T = TypeVar("T")
REPLICAS = 3
numbers = st.integers(0, REPLICAS - 1)
orders = st.permutations(range(REPLICAS))


@dataclass(slots=True)
class Replica:
    """One that runs: what it looks after, and what it serves."""

    certificates: Certificates
    serves: CertificateBundle


class Rotations(RuleBasedStateMachine):
    """A few replicas, one Secret, one webhook configuration."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.scene = Scene()
        self.leading: int | None = 0
        self.running: dict[int, Replica] = {}

    @override
    def teardown(self) -> None:
        self.loop.close()

    def do(self, what: Awaitable[T]) -> T:
        async def waited() -> T:
            return await what

        return self.loop.run_until_complete(waited())

    @initialize()
    def begin(self) -> None:
        self.start(0)
        self.do(self.scene.publish(self.running[0].serves))

    @rule(number=numbers)
    def start(self, number: int) -> None:
        """Start a replica, once those that run have looked."""
        if number not in self.running:
            for running in self.running:
                self.look(running)
            certificates = self.certificates_of(number)
            self.running[number] = Replica(certificates, self.do(certificates.ensure()))

    def certificates_of(self, number: int) -> Certificates:
        certificates = self.scene.replica()
        certificates._leads = lambda: self.leading == number
        return certificates

    @precondition(lambda self: len(self.running) > 1)
    @rule(number=numbers)
    def kill(self, number: int) -> None:
        if number in self.running and len(self.running) > 1:
            del self.running[number]
            self.leading = None if self.leading == number else self.leading

    @rule(number=st.none() | numbers)
    def lead(self, number: int | None) -> None:
        """Let another one lead; the one before may think that it still does (see `usurp`)."""
        self.leading = number

    @rule(number=numbers)
    def usurp(self, number: int) -> None:
        """Let a replica look as if it led, beside the one that does."""
        before, self.leading = self.leading, number
        self.look(number)
        self.leading = before

    @rule(number=numbers)
    def look(self, number: int) -> None:
        self.do(self.seen(number))

    @rule(order=orders, seconds=st.sampled_from([POLL_SECONDS, OVERLAP.total_seconds()]))
    def wait(self, order: list[int], seconds: float) -> None:
        """Let time pass in which all look."""
        for number in order:
            self.look(number)
        self.do(self.scene.clock.advance(seconds))
        for number in order:
            self.look(number)

    async def seen(self, number: int) -> None:
        replica = self.running.get(number)
        if replica is not None:
            try:
                replica.serves = await replica.certificates.ensure()
            except ApiError:
                return

    @rule(number=numbers)
    def look_and_fail(self, number: int) -> None:
        self.scene.secrets.fail(Unavailable("busy"))
        self.look(number)
        self.scene.secrets._state.faults.failing.clear()

    @rule(number=numbers)
    def look_and_lose_the_answer(self, number: int) -> None:
        self.scene.secrets.lose(Unavailable("no answer"))
        self.look(number)
        self.scene.secrets._state.faults.losing.clear()

    @rule()
    def publish(self) -> None:
        """Apply the webhook configuration, as the leader does."""
        if self.leading in self.running:
            self.do(self.scene.publish(self.running[self.leading].serves))

    @rule(times=st.integers(1, 4))
    def drive(self, times: int) -> None:
        """Let the leader work while the others are slow."""
        for _ in range(times):
            if self.leading is not None:
                self.look(self.leading)
            self.publish()

    @rule(what=st.sampled_from(Request))
    def ask(self, what: Request) -> None:
        if self.is_there():
            self.do(self.scene.ask(what))

    @rule()
    def delete(self) -> None:
        if self.is_there():
            self.do(self.scene.delete())

    @rule(keys=st.sets(st.sampled_from(["ca.crt", "ca.key", "tls.crt", "tls.key"]), min_size=1))
    def spoil(self, keys: set[str]) -> None:
        if self.is_there():
            self.do(self.scene.spoil(*keys))

    def is_there(self) -> bool:
        return bool(self.do(self.scene.secrets.list()).items)

    @invariant()
    def what_is_served_is_trusted(self) -> None:
        if self.running:
            trust = self.do(self.scene.trusted())
            for replica in self.running.values():
                assert trusts(trust, replica.serves)

    @invariant()
    def what_is_served_serves(self) -> None:
        now = self.scene.clock.now()
        for replica in self.running.values():
            assert problem(replica.serves, POLICY.names, now) is None

    @precondition(lambda self: bool(self.running))
    @rule(order=orders, leader=numbers)
    def come_to_rest(self, order: list[int], leader: int) -> None:
        """Left alone, all serve the same, of one authority, and that is what is trusted."""
        self.start(leader)
        self.leading = leader
        if self.is_there():
            self.do(self.scene.ask(None))
        for _ in range(6):
            for _ in range(2):
                for number in order:
                    self.look(number)
                self.publish()
            self.do(self.scene.clock.advance(OVERLAP.total_seconds()))
        for number in order:
            self.look(number)

        kept = self.do(self.scene.kept())
        assert phase_of(kept) is Phase.STABLE
        assert all(replica.serves == kept for replica in self.running.values())
        assert trusts(self.do(self.scene.trusted()), kept)


TestRotations = Rotations.TestCase
TestRotations.settings = settings(max_examples=share(30), stateful_step_count=40)
