"""The requests for which the API server calls the webhooks of a ring.

A selector costs the API server almost nothing, but for a CEL expression it converts the whole
object.  So selectors say what they can, and expressions only judge what has an owner label.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sharder.core.api.meta import NAME_LABEL, Json, LabelSelector, Requirement
from sharder.core.api.ring import ControllerRing
from sharder.core.names import (
    CREATED_WEBHOOK_NAME,
    LABELLED_WEBHOOK_NAME,
    WEBHOOK_NAME,
    GroupResource,
    drain_label,
    owner_label,
)
from sharder.core.ring.build import roles_of
from sharder.core.ring.snapshot import Role

POD_CLAIM: Final = "authentication.kubernetes.io/pod-name"
"""The key under which the API server shows the pod of a bound token, since Kubernetes 1.20.

Source: apiserver, pkg/authentication/serviceaccount/util.go, PodNameKey.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """The requests for which one webhook is called, among those in the namespaces of the ring."""

    name: str
    objects: LabelSelector
    """One of the old and the new object has to match."""
    rules: tuple[Json, ...]
    conditions: dict[str, str]
    """CEL expressions by name, of which all have to be true."""


def webhooks_of(
    ring: ControllerRing, *, sharders: Iterable[str], shard_namespaces: Iterable[str]
) -> Iterator[Webhook]:
    """Yield the webhooks of the ring, in the order in which the API server calls them.

    The ring's objectSelector selects main objects.  Their controlled objects rarely have the same
    labels, but need the owner label too.

    Args:
        ring: The ring.
        sharders: The sharder's own user names, for whose updates no webhook is called.
        shard_namespaces: The namespaces in which the Leases of the ring's shards are.
    """
    roles, selector = roles_of(ring), ring.spec.object_selector or LabelSelector()
    controlled = [of for of in sorted(roles) if roles[of] is Role.CONTROLLED]
    main = [of for of in sorted(roles) if roles[of] is not Role.CONTROLLED]
    cel = _Expressions(ring, sharders, shard_namespaces)
    # A new main object always gets its owner from the webhook.  Were only those without the label
    # selected, none would be sent again after a later webhook changed it.
    rules = tuple(_rule(of, "CREATE") for of in main)
    yield Webhook(name=CREATED_WEBHOOK_NAME, objects=selector, rules=rules, conditions={})
    if selector == LabelSelector() or not controlled:
        yield from _pair("", selector, main, controlled, cel)
    else:
        yield from _pair("", selector, main, [], cel)
        yield from _pair("controlled.", LabelSelector(), [], controlled, cel)


def in_scope(
    ring: ControllerRing, default: LabelSelector, excluded: Iterable[str]
) -> LabelSelector:
    """Return the namespaceSelector of the ring's webhooks, which selects no excluded namespace."""
    selector = ring.spec.namespace_selector or default
    return _with(selector, NAME_LABEL, "NotIn", *sorted(excluded))


class _Expressions:
    """The CEL expressions of a ring.  CEL has the escapes of JSON, but for those of surrogates."""

    def __init__(
        self, ring: ControllerRing, sharders: Iterable[str], shard_namespaces: Iterable[str]
    ) -> None:
        self.owner = owner_label(ring.name)
        self._owner, self._drain = _cel(self.owner), _cel(drain_label(ring.name))
        self._by_others = f"!(request.userInfo.username in {_cel(sorted(sharders))})"
        self._accounts = _cel(
            [f"system:serviceaccount:{of}:" for of in sorted({*shard_namespaces})]
        )

    def is_changed(self, *, any_label: bool, creates: bool) -> str:
        """Match updates by others of the owner or drain label, or of any label.

        The value of the drain label counts, because it distinguishes a drain from a recall.  With
        `creates`, also match creates, except by the pod that the owner label names.  Pods of that
        name in namespaces without a shard do not count.
        """
        keys = [self._owner, self._drain]
        labels = [("", ".orValue({})")] if any_label else [(f"[{key}]", "") for key in keys]
        changed = " || ".join(
            f"object.metadata.?labels{key}{end} != oldObject.metadata.?labels{key}{end}"
            for key, end in labels
        )
        changed = f"({changed}) && {self._by_others}"
        if not creates:
            return changed
        pod = f"request.userInfo.?extra[{_cel(POD_CLAIM)}][0]"
        return (
            f"request.operation == 'UPDATE' ? {changed}"
            f" : !(object.metadata.?labels[{self._owner}] == {pod}"
            f" && {self._accounts}.exists(each, request.userInfo.username.startsWith(each)))"
        )

    def is_unassigned(self) -> str:
        """Match creates, and updates by others of objects that had no owner label before."""
        had_owner = f"oldObject.metadata.?labels[{self._owner}].hasValue()"
        return f"request.operation == 'CREATE' || (!{had_owner} && {self._by_others})"

    def has_controller(self, controlled: Iterable[GroupResource]) -> str:
        """Match all but objects of controlled resources with neither controller nor owner label.

        Those, such as most ConfigMaps of a cluster, do not need the webhook.
        """
        resource = (
            "(request.resource.group == '' ? request.resource.resource"
            " : request.resource.resource + '.' + request.resource.group)"
        )
        return (
            f"!({resource} in {_cel([str(of) for of in controlled])})"
            " || object.metadata.?ownerReferences.orValue([])"
            ".exists(reference, reference.?controller.orValue(false))"
            f" || object.metadata.?labels[{self._owner}].hasValue()"
        )


def _pair(
    prefix: str,
    selector: LabelSelector,
    main: list[GroupResource],
    controlled: list[GroupResource],
    cel: _Expressions,
) -> Iterator[Webhook]:
    """Yield a webhook for objects with owner label, and the reference's for those without.

    The latter gives new controlled objects their label, so it comes last: otherwise the former
    would be called for them too.
    """
    resources = sorted((*main, *controlled))
    rules = [_rule(of, *(["CREATE"] if of in controlled else []), "UPDATE") for of in resources]
    statuses = [
        _rule(of, "UPDATE", subresource="/status") for of in resources if _has_labels_in_status(of)
    ]
    is_changed = cel.is_changed(any_label=selector != LabelSelector(), creates=bool(controlled))
    has_controller = {"has-controller": cel.has_controller(controlled)} if controlled else {}
    yield Webhook(
        name=f"{prefix}{LABELLED_WEBHOOK_NAME}",
        objects=_with(selector, cel.owner, "Exists"),
        rules=(*rules, *statuses),
        conditions={"concerns-owner": is_changed},
    )
    yield Webhook(
        name=f"{prefix}{WEBHOOK_NAME}",
        objects=_with(selector, cel.owner, "DoesNotExist"),
        rules=tuple(rules),
        conditions={"unassigned": cel.is_unassigned(), **has_controller},
    )


def _has_labels_in_status(of: GroupResource) -> bool:
    """Return whether a write of `/status` can change labels.

    It can for most built-in resources.  It cannot for Deployments, whose status changes often, and
    for custom resources, whose group has a dot.
    """
    is_built_in = "." not in of.group or of.group.endswith(".k8s.io")
    return is_built_in and of != GroupResource("apps", "deployments")


def _rule(of: GroupResource, *operations: str, subresource: str = "") -> Json:
    return {
        "apiGroups": [of.group],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": [f"{of.resource}{subresource}"],
        "scope": "*",
    }


def _with(selector: LabelSelector, key: str, operator: str, *values: str) -> LabelSelector:
    requirement = Requirement(key=key, operator=operator, values=values)
    return LabelSelector(
        match_labels=selector.match_labels,
        match_expressions=(*selector.match_expressions, requirement),
    )


def _cel(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
