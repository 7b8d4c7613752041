"""Compare a shard with its ring: the shard must handle all main resources of the ring."""

import logging
from collections.abc import Sequence

from sharder.core.api.ring import RingResource
from sharder.core.errors import ApiError, Forbidden, InvalidObject, NotFound
from sharder.core.names import RingName
from sharder.runtime.error_log import Once
from sharder.shard.context import ShardContext
from sharder.shard.identity import Handled

_log = logging.getLogger(__name__)


class RingCheck:
    """Compares a ring with the resources that a shard handles; needs the right to get the ring."""

    def __init__(self, context: ShardContext) -> None:
        self._cluster, self._handled = context.cluster, context.handled
        self._ring = context.identity.ring
        self._logged = Once[RingName]()

    async def problem(self) -> str:
        """Return a message about main resources that the shard does not handle, empty if none.

        Other differences, and a ring that cannot be read, are only logged, once each.
        """
        try:
            resources = (await self._cluster.ring(self._ring)).spec.resources
        except (ApiError, InvalidObject) as error:
            if self._logged.is_new(self._ring, repr(error)):
                level = logging.INFO if isinstance(error, Forbidden) else logging.WARNING
                _log.log(level, "%s", _why_unreadable(self._ring, error))
            return ""
        if foreign := sorted(str(each.id) for each in resources if each.id not in self._handled):
            return (
                f"ControllerRing {self._ring} also assigns {', '.join(foreign)}, which this shard "
                "would neither reconcile nor release: handle them too, or list them in another "
                "ring"
            )
        problems = "; ".join(mismatches(resources, self._handled))
        if self._logged.is_new(self._ring, problems) and problems:
            _log.warning("ControllerRing %s does not fit this shard: %s", self._ring, problems)
        return ""


def _why_unreadable(ring: RingName, error: ApiError | InvalidObject) -> str:
    if isinstance(error, NotFound):
        return (
            f"there is no ControllerRing {ring}, so the shard gets no objects: create it, or "
            "correct the name"
        )
    rule = (
        '; add {apiGroups: ["sharding.timebertt.dev"], resources: [controllerrings], verbs: [get]}'
        " to the shard's ClusterRole"
    )
    why = f"cannot compare ControllerRing {ring} with this shard: {error}"
    return why + (rule if isinstance(error, Forbidden) else "")


def mismatches(resources: Sequence[RingResource], handled: Handled) -> list[str]:
    """Return a message for each resource that a shard handles but its ring does not list."""
    controlled = {each.id: {child.id for child in each.controlled_resources} for each in resources}
    listed = controlled.keys() | set().union(*controlled.values())
    problems: list[str] = []
    for main, children in handled.items():
        if main not in listed:
            problems.append(f"spec.resources lacks {main}, so the shard gets none")
        elif unlisted := sorted(
            str(child) for child in children if child not in controlled.get(main, ())
        ):
            problems.append(
                f"the controlledResources of {main} lack {', '.join(unlisted)}, so children do "
                "not move with their parents"
            )
    return problems
