"""Facts about docs/concepts.md."""

from pathlib import Path

from sharder.core.leases.state import ShardState
from sharder.core.status.phases import ShardPhase
from tests.support.documents import code, section, tables


def test_the_states_of_a_shard_are_documented_with_the_labels_of_their_leases() -> None:
    (documented,) = tables(section(Path("docs/concepts.md"), "The states of a shard"))
    labels = {code(row[0])[0]: set(code(row[3])) for row in documented}

    assert list(labels) == list(ShardPhase)
    assert set.union(*labels.values()) == set(ShardState)
    assert all((ShardState.DEAD in labels[phase]) is phase.is_gone for phase in ShardPhase)
