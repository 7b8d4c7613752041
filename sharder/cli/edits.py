"""One guarded write to one object, and its report.

An operation reads an object, decides, and writes a merge patch that applies only to the version
that was read.  Fields that already have the wanted value are not written.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from sharder.cli.reports import FieldChange, FieldValue, Operation, OperationReport
from sharder.core.api.meta import Json, ObjectMeta
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import Conflict, SharderError
from sharder.core.names import GroupResource, RingName
from sharder.ports import Writable

MAX_TRIES: Final = 5
"""Conflicts after which an operation gives up; shards write their Leases every few seconds."""


class HasMetadata(Protocol):
    """Any object of the cluster."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name and resourceVersion."""
        ...


T = TypeVar("T", bound=HasMetadata)
T_contra = TypeVar("T_contra", bound=HasMetadata, contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field(Generic[T_contra]):
    """A map or struct of values on an object, such as its annotations."""

    outer: str
    inner: str
    read: Callable[[T_contra], Mapping[str, FieldValue]]

    def patch(self, meta: ObjectMeta, values: Mapping[str, FieldValue]) -> Json:
        """Return the merge patch that sets `values` on the object as it was read."""
        guard: dict[str, Json] = {"resourceVersion": meta.resource_version}
        if self.outer == "metadata":
            return {"metadata": {**guard, self.inner: values}}
        return {"metadata": guard, self.outer: {self.inner: values}}


def _annotations(obj: HasMetadata) -> Mapping[str, FieldValue]:
    return {**(obj.metadata.annotations or {})}


def _labels(obj: HasMetadata) -> Mapping[str, FieldValue]:
    return {**(obj.metadata.labels or {})}


def _movement(ring: ControllerRing) -> Mapping[str, FieldValue]:
    return {"paused": ring.spec.movement.paused}


ANNOTATIONS: Final[Field[HasMetadata]] = Field(
    outer="metadata", inner="annotations", read=_annotations
)
LABELS: Final[Field[HasMetadata]] = Field(outer="metadata", inner="labels", read=_labels)
MOVEMENT: Final[Field[ControllerRing]] = Field(outer="spec", inner="movement", read=_movement)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(Generic[T_contra]):
    """The wanted values of one object, and the sentences of the report."""

    ring: RingName
    operation: Operation
    resource: GroupResource
    field: Field[T_contra]
    wanted: Mapping[str, FieldValue]
    done: str
    """The result as a sentence, with `{is_}` in place of the verb."""
    already: str
    """The result if nothing has to be written, as a sentence."""
    warnings: tuple[str, ...] = ()

    def changes(self, obj: T_contra) -> tuple[FieldChange, ...]:
        """Return the values of the object that differ from `wanted`."""
        current = self.field.read(obj)
        return tuple(
            FieldChange(
                field=f"{self.field.outer}.{self.field.inner}",
                key=key,
                before=current.get(key),
                after=value,
            )
            for key, value in self.wanted.items()
            if current.get(key) != value
        )


async def carry_out(
    store: Writable[T], obj: T, edit: Edit[T], *, dry_run: bool
) -> OperationReport:
    """Write the values that differ, except in a dry run, and report them.

    Raises:
        Conflict: another client has written the object since it was read.
        SharderError: the API server did not keep the change.
    """
    changes, meta = edit.changes(obj), obj.metadata
    if changes and not dry_run:
        patch = edit.field.patch(meta, {change.key: change.after for change in changes})
        if edit.changes(await store.patch(meta.ref, patch)):
            raise SharderError(
                f"{edit.resource} {meta.ref} did not keep the change: check the mutating "
                "webhooks, and whether its CRD is from an older sharder"
            )
    done = edit.done.format(is_="would be" if dry_run else "is")
    result = f"dry run, nothing is written: {done}" if dry_run else done
    return OperationReport(
        ring=edit.ring,
        operation=edit.operation,
        dry_run=dry_run,
        object=f"{edit.resource} {meta.ref}",
        changes=changes,
        result=result if changes else edit.already,
        objects=None,
        warnings=edit.warnings,
    )


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[OperationReport]], warn: Callable[[str], None]
) -> OperationReport:
    """Retry on conflicts; print the warnings of the attempt that succeeds.

    Raises:
        Conflict: each of `MAX_TRIES` attempts had a conflict.
    """
    tries = 0
    while True:
        try:
            report = await attempt()
        except Conflict:
            tries += 1
            if tries == MAX_TRIES:
                raise
            continue
        for warning in report.warnings:
            warn(warning)
        return report
