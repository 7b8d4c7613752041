"""`sharder cleanup`: remove the labels and annotations that a ring has left."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from sharder.cli.cluster import Cluster
from sharder.cli.output import write
from sharder.core.api.meta import PartialObject, Resource
from sharder.core.errors import ConfigError, Conflict, NotFound, SharderError, Unavailable
from sharder.core.movement import patches
from sharder.core.names import (
    ObjectRef,
    RingName,
    drain_label,
    is_label_value,
    next_annotation,
    owner_label,
    parse_resource,
)
from sharder.core.ring.build import roles_of
from sharder.runtime.task_pool import Batch, batch

CONCURRENT_WRITES: Final = 50
"""Half of the service's default `concurrentMoves`: a clean-up is not urgent."""

CHECKED_EVERY: Final = 500
"""Objects between two checks that the ring has not returned: a page of a list."""

PAUSES: Final = (0.2, 0.4, 0.8, 1.6)
"""Seconds before another attempt to write an object, after a conflict or without an answer."""


async def clean_up(
    cluster: Cluster, *, ring: str, resources: Sequence[str], dry_run: bool
) -> "list[Sweep]":
    """Clean one resource after the other; failures are in the results.

    Raises:
        ConfigError: the ring has one of the resources, or its name is not valid.
        NotFound: a resource is not served.
    """
    if not is_label_value(ring):
        raise ConfigError(f"{ring!r} is not a valid name of a ControllerRing")
    sweeps = list[Sweep]()
    for word in dict.fromkeys(resources):
        resource = await cluster.objects.find(parse_resource(word))
        sweeps.append(Sweep(cluster, resource, RingName(ring), dry_run=dry_run))
    for sweep in sweeps:
        await sweep.require_absence()
    for sweep in sweeps:
        await sweep.run()
    return sweeps


def draw(sweeps: "Iterable[Sweep]") -> None:
    """Print the numbers and failures, and in a dry run the names of the objects."""
    for sweep in sweeps:
        write(
            *(f"{sweep.resource.id} {name}" for name in sweep.found if sweep.dry_run),
            f"{sweep.resource.id}: {len(sweep.found)} found, {sweep.cleaned} cleaned",
            *sweep.failures,
        )


@dataclass(slots=True)
class Sweep:
    """One pass over a resource, and its results; each write is guarded, so it is safe to rerun."""

    cluster: Cluster
    resource: Resource
    ring: RingName
    dry_run: bool = field(kw_only=True)
    found: list[str] = field(default_factory=list)
    """The objects with a label of the ring, `namespace/name`."""
    cleaned: int = 0
    failures: list[str] = field(default_factory=list)
    """What was not read or written, and why."""

    async def run(self) -> None:
        """Find and clean the objects."""
        owner, drain = _labels(self.ring)
        async with batch(CONCURRENT_WRITES) as writes:
            try:
                for labels in (owner, f"!{owner},{drain}"):
                    await self._clean_all(labels, writes)
            except SharderError as error:  # what was found so far is cleaned nevertheless
                self.failures.append(f"{self.resource.id}: {error}")

    async def _clean_all(self, labels: str, writes: Batch) -> None:
        """Clean the objects that the selector selects."""
        await self.require_absence()
        async for obj in self.cluster.objects.of(self.resource).stream(labels):
            self.found.append(str(obj.metadata.ref))
            if len(self.found) % CHECKED_EVERY == 0:
                await self.require_absence()
            if not self.dry_run:
                await writes.add(self._clean(obj))

    async def require_absence(self) -> None:
        """Raise `ConfigError` if the ring exists and has the resource."""
        with suppress(NotFound):  # the ring does not exist, or its CRD does not
            ring = await self.cluster.rings.get(ObjectRef("", self.ring))
            if self.resource.id in roles_of(ring):
                raise ConfigError(
                    f"{self.resource.id} is part of ControllerRing {self.ring}, which would "
                    "assign its objects again: remove it from the ring first"
                )

    async def _clean(self, obj: PartialObject) -> None:
        try:
            is_cleaned = await self._write(obj)
            self.cleaned += is_cleaned  # read after the wait: others count meanwhile
        except SharderError as error:
            self.failures.append(f"{self.resource.id} {obj.metadata.ref}: {error}")

    async def _write(self, obj: PartialObject) -> bool:
        """Write until the object is clean; return False if it was clean already, or is gone."""
        store, owner, drain = self.cluster.objects.of(self.resource), *_labels(self.ring)
        direction = next_annotation(self.ring)
        with suppress(NotFound):
            for pause in (*PAUSES, None):
                if not obj.metadata.has_label(owner) and not obj.metadata.has_label(drain):
                    return False
                patch = patches.forget(obj.metadata, owner=owner, drain=drain, direction=direction)
                try:
                    after = (await store.patch(obj.metadata.ref, patch)).metadata
                except (Conflict, Unavailable):
                    if pause is None:
                        raise
                    await self.cluster.clock.sleep(pause)
                    obj = await store.get(obj.metadata.ref)
                    continue
                if after.has_label(owner) or after.has_label(drain):
                    raise SharderError(
                        "another client restores the labels: check the mutating webhooks"
                    )
                return True
        return False


def _labels(ring: RingName) -> tuple[str, str]:
    return owner_label(ring), drain_label(ring)
