"""Which rights the sharder needs, and which it lacks.

The chart gives the same (charts/sharder/templates/rbac*.yaml); a test compares them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sharder.core.api.ring import ControllerRing
from sharder.core.check.finding import Finding, Unread, fail, ok, unknown, warn
from sharder.core.names import API_GROUP, VALIDATION_NAME, GroupResource, ObjectRef
from sharder.core.ring.build import roles_of

CHECK: Final = "rights"

_ADMISSION: Final = "admissionregistration.k8s.io"
_LEASES: Final = GroupResource("coordination.k8s.io", "leases")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of a role; each of its verbs is asked for."""

    resource: GroupResource
    """With its subresource, as in a role: `controllerrings/status`."""
    needed: tuple[str, ...]
    """Verbs without which something does not work."""
    useful: tuple[str, ...] = ()
    """Verbs without which it works with a fallback."""
    name: str = ""
    """The only object that it is about; empty: all."""
    namespace: str = ""
    """Empty: the cluster."""
    instead: tuple[str, ...] = ()
    """Namespaces in which the right is enough, together."""

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
    # Of the metrics, which can be off.
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
"""Rules in all namespaces, whatever the rings are."""


def own_rules(namespace: str, secret: str | None) -> tuple[Rule, ...]:
    """Return the rules in the sharder's own namespace; without `secret` it has no certificates."""
    lease = Rule(resource=_LEASES, needed=("create",), namespace=namespace)
    if secret is None:
        return (lease,)
    verbs = ("get", "create", "patch")
    of_secret = Rule(
        resource=GroupResource("", "secrets"), needed=verbs, name=secret, namespace=namespace
    )
    return (lease, of_secret)


def ring_rules(
    rings: Iterable[tuple[ControllerRing, Collection[str]]], *, most_namespaces: int
) -> tuple[Rule, ...]:
    """Return the rules for the objects of rings, each with the namespaces that it selects.

    In up to `most_namespaces` the sharder asks for the objects of each, so that rights there are
    enough.
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
    """Yield the rules that `user` lacks, of `asked` rights; `denied` are verbs."""
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
    chart = " (chart value rings)" if "watch" in rule.useful else ""
    advice = (
        f'add {{apiGroups: ["{group}"], resources: [{resource}]{names}, '
        f"verbs: [{', '.join(verbs)}]}} to the sharder's {role}{chart}"
    )
    severe = fail if set(verbs) & set(rule.needed) else warn
    return severe(CHECK, f"{user} is not allowed to {', '.join(verbs)} {of}{named}{where}", advice)
