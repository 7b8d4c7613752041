"""The promises of `sharder.core.movement.budget`: no minute and no shard ever has too many."""

from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from sharder.core.api.ring import MovementSpec
from sharder.core.errors import Conflict
from sharder.core.movement.budget import MINUTE, Budget
from sharder.core.names import ShardName
from tests.support.values import A, B

# Right before, at and after the ends of a window, where logs that slide go wrong.
pauses = st.sampled_from([0.0, 0.1, 1.0, 29.9, 30.0, 59.9, 60.0, 60.1]) | st.floats(0, 70)


@dataclass(slots=True)
class Writer:
    """Writes drains as a pass does, and a server that carries them out at some time meanwhile."""

    limits: MovementSpec
    budget: Budget[int] = field(init=False)
    now: float = 0.0
    flying: dict[int, tuple[ShardName, float, ExitStack]] = field(default_factory=dict)
    """Drains with their shard, when they were begun, and the end of their writes."""
    carried_out: list[float] = field(default_factory=list)
    open: dict[int, tuple[ShardName, float]] = field(default_factory=dict)
    """Drains with their shard and when they were carried out."""
    number: int = 0

    def __post_init__(self) -> None:
        self.budget = Budget(lambda: self.now)

    def young(self, shard: ShardName) -> int:
        """Count what the shard has been asked for in the last minute, as the server has it."""
        asked = [since for name, since in self.open.values() if name == shard]
        return sum(since > self.now - MINUTE for since in asked)

    def begin(self, shard: ShardName) -> None:
        if self.budget.refusal(shard, self.limits) is None:
            self.number += 1
            writing = ExitStack()
            writing.enter_context(self.budget.writing(self.number, shard))
            self.flying[self.number] = (shard, self.now, writing)

    def end(self, share: float, *, fails: bool) -> None:
        """End the write that has taken longest; the server had it after a share of the time."""
        if self.flying:
            drain, (shard, began, writing) = next(iter(self.flying.items()))
            del self.flying[drain]
            with suppress(Conflict), writing:
                if fails:
                    raise Conflict("")
            if fails:
                return
            when = began + share * (self.now - began)
            self.carried_out.append(when)
            self.open[drain] = (shard, when)

    def acknowledge(self) -> None:
        if self.open:
            drain = next(iter(self.open))
            del self.open[drain]
            self.budget.closed(drain)


steps = st.tuples(
    pauses,
    st.sampled_from(["begin", "begin", "begin", "end", "end", "fail", "acknowledge"]),
    st.sampled_from([A, B]),
    st.floats(0, 1),
)


def carry_out(writer: Writer, step: tuple[float, str, ShardName, float]) -> None:
    pause, what, shard, share = step
    writer.now += pause
    match what:
        case "begin":
            writer.begin(shard)
        case "acknowledge":
            writer.acknowledge()
        case _:
            writer.end(share, fails=what == "fail")


@given(st.lists(steps, max_size=80), st.integers(1, 4))
def test_in_no_minute_more_drains_are_carried_out_than_the_ring_allows(
    taken: list[tuple[float, str, ShardName, float]], limit: int
) -> None:
    writer = Writer(MovementSpec(max_moves_per_minute=limit))

    for step in taken:
        carry_out(writer, step)
    while writer.flying:
        writer.end(1.0, fails=False)

    times = sorted(writer.carried_out)
    # A millionth of a second for the share of the time, which rounds.
    assert all(
        later - sooner >= MINUTE - 1e-6
        for sooner, later in zip(times, times[limit:], strict=False)
    )


@given(st.lists(steps, max_size=80), st.integers(1, 4))
def test_no_shard_is_ever_asked_for_more_at_a_time_than_the_ring_allows(
    taken: list[tuple[float, str, ShardName, float]], limit: int
) -> None:
    writer = Writer(MovementSpec(max_concurrent_drains=limit))

    for step in taken:
        carry_out(writer, step)

        assert all(writer.young(shard) <= limit for shard in (A, B))
