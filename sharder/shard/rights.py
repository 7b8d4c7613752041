"""The rights that a shard needs, and the rules that grant missing ones.  Pure."""

from collections.abc import Sequence
from typing import Final

from sharder.core.api.cluster import Right
from sharder.core.names import GroupResource, ObjectRef
from sharder.shard.identity import Handled, children_of

MAIN_VERBS: Final = ("get", "list", "watch", "patch")
CHILD_VERBS: Final = ("get", "list", "watch", "create", "patch")
_READ: Final = ("get", "list", "watch")
LEASE_VERBS: Final = ("get", "create", "patch")
LEASES: Final = GroupResource("coordination.k8s.io", "leases")


def needed_rights(handled: Handled, lease: ObjectRef) -> tuple[Right, ...]:
    """Return the rights that a shard needs to hold its Lease and to handle its objects."""
    return (
        *(Right(verb=verb, resource=main) for main in handled for verb in MAIN_VERBS),
        *(
            Right(verb=verb, resource=child)
            for child in children_of(handled)
            for verb in CHILD_VERBS
        ),
        # RBAC cannot restrict `create` by name.
        *(
            Right(
                verb=verb,
                resource=LEASES,
                namespace=lease.namespace,
                name="" if verb == "create" else lease.name,
            )
            for verb in LEASE_VERBS
        ),
    )


def rights_behind_proxy(handled: Handled, lease: ObjectRef) -> tuple[Right, ...]:
    """Return the same for a shard behind a proxy: how children are written is its own matter."""
    reads = [Right(verb=verb, resource=each) for each in children_of(handled) for verb in _READ]
    return (*needed_rights(dict.fromkeys(handled, ()), lease), *reads)


def advice(missing: Sequence[Right]) -> str:
    """Return a message with the rules that grant `missing`, which must not be empty."""
    verbs: dict[tuple[GroupResource, str], list[str]] = {}
    for right in missing:
        verbs.setdefault((right.resource, right.namespace), []).append(right.verb)
    rules = [
        f'{{apiGroups: ["{resource.group}"], resources: [{resource.resource}], '
        f"verbs: [{', '.join(allowed)}]}} to the shard's "
        + (f"Role in namespace {namespace}" if namespace else "ClusterRole")
        for (resource, namespace), allowed in verbs.items()
    ]
    return f"rights are missing, add {' and '.join(rules)}"
