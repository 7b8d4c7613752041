"""Deliberate bugs, each named by the law that it breaks; a scenario and random seeds find it."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Final, NamedTuple

from sharder.controllers.movement.resync.part_pass import PartPass
from sharder.controllers.movement.waiting import orphans
from sharder.controllers.movement.watches import object_backlog
from sharder.controllers.movement.writes.dependents_list import DependentsList
from sharder.controllers.movement.writes.lease_guard import LeaseGuard
from sharder.runtime.lease_lock import LeaseHolder
from sharder.sdk.reads.progress import Progress


class Patch(NamedTuple):
    """What replaces a function, or a constant, of the product."""

    target: object
    name: str
    value: object


class Mutant(NamedTuple):
    """A bug."""

    law: str
    patches: Sequence[Patch]

    def apply(self) -> None:
        """Put the bug in, for the rest of this process.

        Raises:
            AttributeError: the product has no such function any more.
        """
        for patch in self.patches:
            getattr(patch.target, patch.name)
            setattr(patch.target, patch.name, patch.value)


async def _nothing(*_: object) -> None:
    """Do nothing."""


async def _none(*_: object) -> dict[str, object]:
    """Find nothing."""
    return {}


MUTANTS: Final = {
    "orphans": Mutant(
        "an object whose label was removed waits for its last shard",
        [Patch(orphans, "UNSEEN_SECONDS", 0.0), Patch(object_backlog, "UNSEEN_SECONDS", 0.0)],
    ),
    "children-first": Mutant(
        "children move before their parent", [Patch(DependentsList, "of", _none)]
    ),
    "gather": Mutant(
        "children that are not with their parent follow it",
        [Patch(PartPass, "_gather", _nothing)],
    ),
    "own-writes": Mutant(
        "a shard reads its own writes", [Patch(Progress, "until_children_shown", _nothing)]
    ),
    "renewals": Mutant(
        "a shard works only while it holds its Lease",
        [
            Patch(LeaseHolder, "valid", lambda _self, _now: True),
            Patch(LeaseHolder, "_left", lambda _self: 3600.0),
        ],
    ),
    "returning-shards": Mutant(
        "nothing is taken from a shard that is back",
        [Patch(LeaseGuard, "holding", lambda *_, **__: nullcontext(lambda: None))],
    ),
}
