"""Count each written step, and measure how long objects had no owner."""

import logging

from sharder.controllers.movement.ports import Ports
from sharder.controllers.movement.writes.failures import LabelReverted
from sharder.controllers.ownerless import Ownerless
from sharder.controllers.scope import ObjectKey
from sharder.core.api.meta import PartialObject
from sharder.core.movement.step import (
    Assign,
    Drain,
    Relabel,
    Send,
    Step,
)
from sharder.core.ring.snapshot import RingSnapshot, Role

_log = logging.getLogger(__name__)


class WrittenSteps:
    """Gets each step right after its write."""

    def __init__(self, ports: Ports, ownerless: Ownerless) -> None:
        """`ownerless` measures how long objects have no owner."""
        self._ports = ports
        self._ownerless = ownerless

    def about_to_write(
        self, snapshot: RingSnapshot, key: ObjectKey, before: PartialObject, step: Step
    ) -> None:
        """Note a step that a watch can show before its answer arrives."""
        if isinstance(step, Send):
            self._ownerless.sending(key, snapshot.owner_of(before))

    def note(
        self,
        snapshot: RingSnapshot,
        key: ObjectKey,
        before: PartialObject,
        result: PartialObject,
        step: Step,
    ) -> None:
        """Count a step if the response shows it.

        Raises:
            LabelReverted: the response does not show the step, because another webhook reverted
                it.
        """
        self._ports.on_moved(snapshot.name)
        if missing := _missing(snapshot, result, step):
            raise LabelReverted(
                f"another webhook reverted the {missing} of {key.resource} {result.metadata.ref} "
                "during the sharder's write: check the admission webhooks and policies that "
                "change metadata"
            )
        if isinstance(step, Assign | Relabel):
            self._ports.metrics.moved(snapshot.name, key.resource)
            if snapshot.roles[key.resource] is not Role.CONTROLLED:
                version = before.metadata.resource_version
                self._ownerless.assigned(key, version, snapshot.owner_of(before), step.shard)
        elif isinstance(step, Drain):
            self._ports.metrics.drained(snapshot.name, key.resource)
        fields = {"ring": snapshot.name, "object": str(result.metadata.ref), "step": repr(step)}
        _log.debug("wrote step", extra=fields)


def _missing(snapshot: RingSnapshot, result: PartialObject, step: Step) -> str:
    """Return the part of a step that the response does not show, empty if it shows all."""
    match step:
        case Assign(shard) | Relabel(shard) if snapshot.owner_of(result) != shard:
            return f"label {snapshot.owner_label}"
        case Drain() if not snapshot.is_draining(result):
            return f"label {snapshot.drain_label}"
        case Send(shard) if snapshot.direction_of(result) != shard:
            return f"annotation {snapshot.next_annotation}"
        case Send() if snapshot.owner_of(result) is not None:
            return f"removal of the label {snapshot.owner_label}"
        case _:
            return ""
