"""Resources and objects in kubectl's forms: `deploy`, `Secret`, `secrets.v1`, `secret/name`."""

from collections.abc import Sequence
from typing import Final

from sharder.cli.command import UsageError
from sharder.core.api.meta import Resource

_FORM: Final = "give objects as RESOURCE NAME, or as RESOURCE/NAME"


def matches(resource: Resource, word: str) -> bool:
    """Return whether the word names this resource, by the rules of kubectl.

    The word is the plural, singular, a short name or the kind in any case, alone or with the
    group, or with version and group.
    """
    name, _, group = word.lower().partition(".")
    names = {resource.id.resource, resource.kind.lower(), resource.singular, *resource.short_names}
    groups = {"", resource.id.group, f"{resource.version}.{resource.id.group}"}
    return bool(name) and name in names and group in groups


def targets(words: Sequence[str], namespace: str | None) -> list[str]:
    """Return `RESOURCE/NAMESPACE/NAME` of each object in `secrets a b`, or `secret/a secret/b`.

    Raises:
        UsageError: the words have another form, or name another namespace.
    """
    if "/" in words[0]:
        pairs = [word.partition("/") for word in words]
    else:
        pairs = [(words[0], "/", word) for word in words[1:]]
    if not pairs or not all(resource and name for resource, _, name in pairs):
        raise UsageError(f"{' '.join(words)} is not an object; {_FORM}")
    return [f"{resource}/{_within(name, namespace)}" for resource, _, name in pairs]


def _within(name: str, namespace: str | None) -> str:
    if namespace is None:
        return name
    if not namespace:
        raise UsageError("--namespace is empty")
    given, slash, _ = name.rpartition("/")
    if slash and given != namespace:
        raise UsageError(f"{name} is not in the namespace {namespace} of --namespace")
    return name if slash else f"{namespace}/{name}"


def named_by(key: str) -> str:
    """Return the arguments of other commands for the object of a key, such as `secret demo/x`."""
    group, kind, namespace, name = key.split("/")
    resource = f"{kind}.{group}" if group else kind
    return f"{resource.lower()} {namespace}/{name}" if namespace else f"{resource.lower()} {name}"
