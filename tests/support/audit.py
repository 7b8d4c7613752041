"""What a client does on a control plane, and its rights, both from the API server."""

from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from hack.audit_log import audit_flags, audit_policy, events
from hack.control_plane import ControlPlane


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


class _Reference(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    api_group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _Status(msgspec.Struct, frozen=True):
    code: int = 0


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    verb: str
    request_uri: str = msgspec.field(name="requestURI")
    object_ref: _Reference | None = None
    response_status: _Status = _Status()

    def needed(self) -> Iterator[Right]:
        """Yield what the request is allowed by."""
        of = self.object_ref
        if of is None:
            yield Right(self.verb, "", self.request_uri.partition("?")[0])
            return
        resource = "/".join(filter(None, (of.resource, of.subresource)))
        # Who creates by POST says the name in the body, which rights do not look at.
        name = "" if self.verb == "create" else of.name
        yield Right(self.verb, of.api_group, resource, of.namespace, name)
        if self.verb == "patch" and self.response_status.code == 201:
            # Server-side apply has created it, which needs the right to create, too.
            yield Right("create", of.api_group, resource, of.namespace, of.name)


class Audit:
    """The audit log of one user's requests, for a control plane that is not started yet."""

    def __init__(self, directory: Path, user: str) -> None:
        """Keep policy and log in `directory`, which outlives the control plane."""
        self._policy, self._log = directory / "policy.json", directory / "log"
        # Each request is logged when its answer begins, a watch that goes on as well.
        self._policy.write_text(audit_policy({"level": "Metadata", "users": [user]}))

    @property
    def flags(self) -> tuple[str, ...]:
        """For the API server, which writes each request down before it goes on."""
        return audit_flags(self._policy, self._log)

    def asked(self) -> set[Right]:
        """Return what all requests needed, each once."""
        return {right for event in self._events() for right in event.needed()}

    def refused(self) -> set[Right]:
        """Return what was needed by requests that got 403."""
        refused = (event for event in self._events() if event.response_status.code == 403)
        return {right for event in refused for right in event.needed()}

    def _events(self) -> Iterator[_Event]:
        with self._log.open("rb") as lines:
            yield from events(lines, _Event)


class _Rule(msgspec.Struct, frozen=True, rename="camel"):
    verbs: tuple[str, ...]
    api_groups: tuple[str, ...] = ("",)
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = msgspec.field(default=("",), name="resourceNames")
    paths: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")

    def rights(self, namespace: str) -> Iterator[Right]:
        for verb in self.verbs:
            for group in self.api_groups:
                for resource in (*self.resources, *self.paths):
                    for name in self.names:
                        yield Right(verb, group, resource, namespace, name)


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
    rules: tuple[_Rule, ...] | None = None
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
        rights.update(right for rule in bound.rules or () for right in rule.rights(where))
    return rights
