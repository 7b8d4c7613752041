"""Deliberate bugs in what shards and sharders do around the core, which the judge has to find.

Those in the core are found by the model of the protocol (tests/mutants).
"""

import shutil
from pathlib import Path
from typing import Final

from hack.playground import ROOT
from tests.property.model.mutants import Mutant

PACKAGES: Final = ("sharder", "webhook")

MUTANTS: Final = {
    "handoff": Mutant(
        name="works before its cache has the children of the last owner",
        module="sharder/sdk/reads/handoff.py",
        old="while ref in self._arrivals or self._doubted():",
        new="while self._doubted():",
    ),
    "own-writes": Mutant(
        name="reads its cache before that has its own writes",
        module="sharder/sdk/reads/cache.py",
        old="await self._progress.until_children_shown(uid)",
        new="pass",
    ),
    "renewals": Mutant(
        name="believes in its Lease for an hour after each renewal",
        module="sharder/runtime/lease_record.py",
        old="self.renewed = sent",
        new="self.renewed = sent + 3600",
    ),
    "early-release": Mutant(
        name="releases its Lease before its work has ended",
        module="sharder/sdk/lifecycle.py",
        old="await stopping()\n",
        new="await stopping()\n        await holder.release()\n",
    ),
    "orphans": Mutant(
        name="assigns at once what has just lost its label",
        module="sharder/controllers/movement/waiting/orphans.py",
        old="UNSEEN_SECONDS: float = 3.0",
        new="UNSEEN_SECONDS: float = 0.0",
    ),
    "clocks": Mutant(
        name="judges by the clock of the shard whether it is dead",
        module="sharder/controllers/lease_controller.py",
        old="if observed.is_silent(monotonic):",
        new="since = now - 2 * duration_of(observed.lease)\n"
        "    if (observed.lease.spec.renew_time or '') < format_time(since):",
    ),
    "children-first": Mutant(
        name="hands an object over before its children",
        module="sharder/controllers/movement/writes/owner_transfer.py",
        old="self._dependents.of(main.id, led, self._left(led, shards))",
        new="self._dependents.of(main.id, {}, set())",
    ),
    "two-handovers": Mutant(
        name="stands in for the leader where it sees another shard than the leader",
        module="sharder/controllers/movement/handover/handover.py",
        old="found = [obj for obj in found if is_directed(snapshot, obj)]",
        new="found = [obj for obj in found if snapshot.owner_of(obj) is None]",
    ),
    "early-deletion": Mutant(
        name="deletes a released Lease by the clock of its shard",
        module="sharder/controllers/lease_controller.py",
        old="if state is ShardState.ORPHANED and monotonic >= observed.kept_until():",
        new="if state is ShardState.ORPHANED:",
    ),
    "returning-shards": Mutant(
        name="takes objects from a shard that comes back meanwhile",
        module="sharder/controllers/movement/writes/mover.py",
        old="return self._lease_guard.holding(ref, again=self.failures.is_stubborn(key))",
        new="return nullcontext(_pass)",
    ),
    "expired-watch": Mutant(
        name="goes on watching from a version that is gone",
        module="sharder/runtime/reflector.py",
        old='version="" if isinstance(error, Expired | NotFound) else place.version',
        new="version=place.version",
    ),
    "refusals": Mutant(
        name="refuses a request that it has a warning for",
        module="webhook/review.py",
        old="allowed=True,\n            patch_type",
        new="allowed=not decision.warning,\n            patch_type",
    ),
}
"""By the name on the command line."""


def copy_with(mutant: Mutant, directory: Path) -> None:
    """Copy what shards and sharders run into a directory, with this bug.

    Raises:
        LookupError: the source has changed, and the mutant has to follow.
    """
    for package in PACKAGES:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, directory / package, ignore=ignore)
    mutant.apply(directory)
