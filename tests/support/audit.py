"""What a client does on a control plane, and its rights, both from the API server."""

from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from hack.audit_log import AuditLog, Event
from hack.control_plane import ControlPlane
from tests.chart.rendering import Rule


class Right(NamedTuple):
    """A verb on a resource or a path; without `name` on all, without `namespace` anywhere."""

    verb: str
    group: str
    resource: str
    """With its subresource; a path may end with `*`."""
    namespace: str = ""
    name: str = ""

    def allows(self, asked: "Right") -> bool:
        """Return whether it is enough for a request that needs `asked`."""
        return (
            self[:2] == asked[:2]
            and fnmatchcase(asked.resource, self.resource)
            and self.namespace in {"", asked.namespace}
            and self.name in {"", asked.name}
        )


def exercised(asked: Right, rights: Iterable[Right]) -> Right:
    """Return the narrowest of the rights that is enough, `asked` itself if none is."""
    enough = [right for right in rights if right.allows(asked)]
    return max(enough, key=lambda each: (bool(each.name), bool(each.namespace)), default=asked)


def is_too_wide(right: Right, needs: Collection[Right]) -> bool:
    """Return whether one for a single namespace, or a single name, would be enough.

    Args:
        right: Maybe for all namespaces or names.
        needs: What the requests needed that it was used for; of none it is not known.
    """
    namespaces, names = {each.namespace for each in needs}, {each.name for each in needs}
    return any(
        not limit and len(needed) == 1 and needed != {""}
        for limit, needed in ((right.namespace, namespaces), (right.name, names))
    )


def rights_of(rules: Iterable[Rule], namespace: str) -> set[Right]:
    """Return what the rules of a role allow; one without a namespace does so everywhere."""
    return {
        Right(verb, group, resource, namespace, only)
        for rule in rules
        for verb in rule.verbs
        for group in rule.api_groups or ("",)
        for resource in (*rule.resources, *rule.non_resource_urls)
        for only in rule.resource_names or ("",)
    }


class _Event(Event, frozen=True, rename="camel"):
    def needed(self) -> Iterator[Right]:
        """Yield what the request is allowed by."""
        of = self.object_ref
        if not of.resource:
            yield Right(self.verb, "", self.request_uri.partition("?")[0])
            return
        resource = "/".join(filter(None, (of.resource, of.subresource)))
        # Who creates by POST says the name in the body, which rights do not look at.
        name = "" if self.verb == "create" else of.name
        yield Right(self.verb, of.api_group, resource, of.namespace, name)
        if self.verb == "patch" and self.response_status.code == 201:
            # Server-side apply has created it, which needs the right to create, too.
            yield Right("create", of.api_group, resource, of.namespace, of.name)


class Audit(AuditLog):
    """The audit log of one user's requests."""

    def __init__(self, directory: Path, user: str) -> None:
        """Keep policy and log; each request is logged when its answer begins, a watch as well."""
        super().__init__(directory, {"level": "Metadata", "users": [user]})

    def asked(self) -> set[Right]:
        """Return what all requests needed, each once."""
        return {right for event in self.events(_Event) for right in event.needed()}

    def refused(self) -> set[Right]:
        """Return what was needed by requests that got 403."""
        refused = (event for event in self.events(_Event) if event.response_status.code == 403)
        return {right for event in refused for right in event.needed()}


class _Subject(msgspec.Struct, frozen=True):
    kind: str
    name: str
    namespace: str = ""


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    """A role or a binding."""

    kind: str
    metadata: _Metadata
    rules: tuple[Rule, ...] | None = None
    role_ref: _Subject | None = None
    subjects: tuple[_Subject, ...] | None = None


class _Objects(msgspec.Struct, frozen=True):
    items: tuple[_Object, ...]


_KINDS: Final = "clusterroles,roles,clusterrolebindings,rolebindings"


def granted(plane: ControlPlane, namespace: str, service_account: str) -> set[Right]:
    """Return what the roles allow that are bound to a ServiceAccount itself, not to its groups."""
    text = plane.kubectl("get", _KINDS, "--all-namespaces", "-o", "json")
    objects = msgspec.json.decode(text, type=_Objects).items
    roles = {(each.kind, each.metadata.namespace, each.metadata.name): each for each in objects}
    account = _Subject("ServiceAccount", service_account, namespace)
    rights = set[Right]()
    for binding in objects:
        role = binding.role_ref
        if role is None or account not in (binding.subjects or ()):
            continue
        where = binding.metadata.namespace
        bound = roles[role.kind, where if role.kind == "Role" else "", role.name]
        rights |= rights_of(bound.rules or (), where)
    return rights
