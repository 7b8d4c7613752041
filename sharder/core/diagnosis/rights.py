"""Which rights the sharder needs, and which of them it lacks.

The chart grants the same rights (charts/sharder/templates/rbac*.yaml); a test compares them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sharder.core.api.ring import ControllerRing
from sharder.core.diagnosis.finding import Finding, Unread, fail, ok, unknown, warn
from sharder.core.names import API_GROUP, VALIDATION_NAME, GroupResource, ObjectRef
from sharder.core.ring.build import roles_of

CHECK: Final = "rights"

_ADMISSION: Final = "admissionregistration.k8s.io"
_LEASES: Final = GroupResource("coordination.k8s.io", "leases")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of a role; each of its verbs is checked."""

    resource: GroupResource
    """The resource, with a subresource as in a role: `controllerrings/status`."""
    needed: tuple[str, ...]
    """Verbs without which something does not work."""
    useful: tuple[str, ...] = ()
    """Verbs without which the sharder uses a fallback."""
    name: str = ""
    """The only object that the rule is for; empty: all objects."""
    namespace: str = ""
    """The namespace of the objects; empty: all namespaces."""
    instead: tuple[str, ...] = ()
    """Namespaces; the right in all of them is enough instead."""

    @property
    def verbs(self) -> tuple[str, ...]:
        """All verbs."""
        return (*self.needed, *self.useful)


FOR_ALL: Final = (
    Rule(resource=GroupResource(API_GROUP, "controllerrings"), needed=("list", "watch")),
    Rule(resource=GroupResource(API_GROUP, "controllerrings/status"), needed=("patch",)),
    # Needed if the admission plugin OwnerReferencesPermissionEnforcement is on.
    Rule(
        resource=GroupResource(API_GROUP, "controllerrings/finalizers"),
        needed=(),
        useful=("update",),
    ),
    Rule(resource=_LEASES, needed=("get", "list", "watch", "patch", "delete")),
    Rule(resource=GroupResource("", "namespaces"), needed=("list", "watch")),
    Rule(
        resource=GroupResource(_ADMISSION, "mutatingwebhookconfigurations"),
        needed=("list", "create", "patch", "delete"),
    ),
    Rule(
        resource=GroupResource(_ADMISSION, "validatingwebhookconfigurations"),
        needed=(),
        useful=("get", "create", "patch"),
        name=VALIDATION_NAME,
    ),
    Rule(resource=GroupResource("", "events"), needed=(), useful=("create",)),
    # For the metrics, which can be disabled.
    Rule(
        resource=GroupResource("authentication.k8s.io", "tokenreviews"),
        needed=(),
        useful=("create",),
    ),
    Rule(
        resource=GroupResource("authorization.k8s.io", "subjectaccessreviews"),
        needed=(),
        useful=("create",),
    ),
)
"""Rules for all namespaces that do not depend on rings."""


def own_rules(namespace: str, secret: str | None) -> tuple[Rule, ...]:
    """Return the rules for the sharder's own namespace.

    `secret` is the Secret of its certificates, None if it has none.
    """
    lease = Rule(resource=_LEASES, needed=("create",), namespace=namespace)
    if secret is None:
        return (lease,)
    of_secret = Rule(
        resource=GroupResource("", "secrets"),
        needed=("get", "create", "patch"),
        useful=("list", "watch"),
        name=secret,
        namespace=namespace,
    )
    return (lease, of_secret)


def ring_rules(
    rings: Iterable[tuple[ControllerRing, Collection[str]]], *, most_namespaces: int
) -> tuple[Rule, ...]:
    """Return the rules for the objects of rings.

    Args:
        rings: Each ring with the namespaces that it selects.
        most_namespaces: If a ring selects at most this many namespaces, the sharder can list each
            of them, so rights in these namespaces are enough.
    """
    selected: dict[GroupResource, set[str]] = {}
    for ring, namespaces in rings:
        for resource in roles_of(ring):
            selected.setdefault(resource, set()).update(namespaces)
    return tuple(
        Rule(
            resource=resource,
            needed=("list", "patch"),
            useful=("get", "watch"),  # docs/protocol.md, "Fewer rights"
            instead=tuple(sorted(spaces)) if len(spaces) <= most_namespaces else (),
        )
        for resource, spaces in sorted(selected.items())
    )


def rights(
    denied: Mapping[Rule, Collection[str]] | Unread, user: str, *, asked: int
) -> Iterator[Finding]:
    """Yield the rights that `user` lacks.

    `denied` are the verbs that it lacks, by rule, and `asked` is the number of checked rights.
    """
    if isinstance(denied, Unread):
        yield unknown(CHECK, denied)
        return
    for rule, verbs in denied.items():
        yield _missing(rule, sorted(verbs, key=rule.verbs.index), user)
    if not denied:
        yield ok(CHECK, f"{user} has all {asked} rights that it needs")


def service_account(ref: ObjectRef) -> tuple[str, tuple[str, ...]]:
    """Return the user name and the groups of a ServiceAccount."""
    everyone = "system:serviceaccounts"
    groups = (everyone, f"{everyone}:{ref.namespace}", "system:authenticated")
    return f"system:serviceaccount:{ref.namespace}:{ref.name}", groups


def _missing(rule: Rule, verbs: list[str], user: str) -> Finding:
    group, resource = rule.resource
    of = f"{resource} of the group {group}" if group else resource
    named = f" {rule.name}" if rule.name else ""
    where = f" in the namespace {rule.namespace}" if rule.namespace else ""
    names = f", resourceNames: [{rule.name}]" if rule.name else ""
    role = f"Role in {rule.namespace}" if rule.namespace else "ClusterRole"
    chart = " (chart value rings)" if "watch" in rule.useful and not rule.name else ""
    advice = (
        f'add {{apiGroups: ["{group}"], resources: [{resource}]{names}, '
        f"verbs: [{', '.join(verbs)}]}} to the sharder's {role}{chart}"
    )
    severe = fail if set(verbs) & set(rule.needed) else warn
    return severe(CHECK, f"{user} is not allowed to {', '.join(verbs)} {of}{named}{where}", advice)
