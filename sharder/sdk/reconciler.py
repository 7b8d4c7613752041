"""A main resource of a shard, its functions, and the resources of its children.  Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from sharder.core.errors import ConfigError
from sharder.core.names import GroupResource
from sharder.sdk.handlers import Handlers
from sharder.sdk.predicates import Predicate, any_change, any_of, safe, selection_changed
from sharder.shard.resources import parse_resource


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciler:
    """How a shard handles one main resource."""

    resource: GroupResource
    owns: tuple[GroupResource, ...]
    handlers: Handlers
    when: Predicate = any_change
    """Which changes of an object need a reconcile."""
    cache: frozenset[GroupResource] = frozenset()
    """Resources whose objects are kept in memory."""

    @classmethod
    def parse(
        cls,
        resource: str,
        handlers: Handlers,
        *,
        owns: Sequence[str],
        cache: Sequence[str],
        when: Predicate,
    ) -> Self:
        """Return the reconciler of the named resources; `when` can raise."""
        return cls(
            resource=parse_resource(resource),
            owns=tuple(map(parse_resource, owns)),
            handlers=handlers,
            when=safe(any_of(selection_changed(handlers.selects), when)),
            cache=frozenset(map(parse_resource, cache)),
        )

    def check(self) -> None:
        """Raise `ConfigError` unless the reconciler is valid."""
        self.handlers.check()
        if unknown := self.cache - {self.resource, *self.owns}:
            raise ConfigError(
                f"`cache` has {', '.join(sorted(map(str, unknown)))}, which is neither "
                f"{self.resource} nor in its `owns`"
            )


def require_apart(reconcilers: Iterable[Reconciler]) -> None:
    """Raise if a resource is handled twice.

    Raises:
        ConfigError: two reconcilers have the same main resource, or a main resource is in the
            `owns` of a reconciler.  A ring places an object either by itself or with its
            controller, so children of a main resource could be on other shards than their parents.
    """
    mains = [each.resource for each in reconcilers]
    for main in mains:
        if mains.count(main) > 1:
            raise ConfigError(f"{main} has two reconcilers: a shard runs one for each resource")
    for each in reconcilers:
        for child in each.owns:
            if child in mains:
                raise ConfigError(
                    f"{child} has a reconciler and is in `owns` of {each.resource}: a ring places "
                    "its objects by themselves, not with their parents; use another resource for "
                    "children"
                )
