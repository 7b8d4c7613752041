"""What a request of the controller is about.  Pure.

Verbs are those of the Kubernetes API (apiserver, pkg/endpoints/request/requestinfo.go).
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from sharder.core.api.meta import namespace_in, resource_path
from sharder.core.names import GroupResource, ObjectRef


class Verb(Enum):
    """What a request does."""

    GET = auto()
    LIST = auto()
    WATCH = auto()
    CREATE = auto()
    PUT = auto()
    """An update or an apply of one object: it sends all of it, which can create it."""
    WRITE = auto()
    """A patch or a deletion of one object, or a create of its subresource."""
    DELETE_COLLECTION = auto()


class Target(NamedTuple):
    """The objects of a request."""

    verb: Verb
    resource: GroupResource
    ref: ObjectRef
    """The name is empty for all objects of the namespace, and for a create."""

    @property
    def namespace(self) -> str:
        """The namespace, empty for all, and for cluster-scoped objects."""
        return self.ref.namespace


def target_of(method: str, path: str, query: Mapping[str, str]) -> Target | None:
    """Return what a request is about, None if it is not about objects."""
    found = resource_path(path)
    if found is None:
        return None
    group, _, parts = found
    if is_old := parts[0] == "watch" and len(parts) > 1:  # deprecated, and still served
        parts = parts[1:]
    namespace, rest = namespace_in(parts)
    resource, name = (*rest, "")[:2]
    is_watch = is_old or (is_set(query, "watch") and not name)
    verb = _verb(method, has_name=bool(name), is_watch=is_watch)
    return (
        None
        if verb is None
        else Target(verb, GroupResource(group, resource), ObjectRef(namespace, name))
    )


def _verb(method: str, *, has_name: bool, is_watch: bool) -> Verb | None:
    match method:
        case "GET" if is_watch:
            return Verb.WATCH
        case "GET":
            return Verb.GET if has_name else Verb.LIST
        case "POST":
            return Verb.WRITE if has_name else Verb.CREATE
        case "DELETE" if not has_name:
            return Verb.DELETE_COLLECTION
        case "PUT":
            return Verb.PUT
        case "PATCH" | "DELETE":
            return Verb.WRITE
        case _:
            return None


def is_set(query: Mapping[str, str], name: str) -> bool:
    """Return whether a parameter is true, as the API server reads it: clients write True, too."""
    return query.get(name, "false").lower() not in {"false", "0"}


def as_json(accept: str) -> str:
    """Return the header Accept for JSON of whole objects, or of their metadata; not for tables."""
    shown = next((part for part in accept.split(",") if "as=PartialObjectMetadata" in part), "")
    _, _, options_text = shown.partition(";")
    return f"application/json;{options_text}" if options_text else "application/json"
