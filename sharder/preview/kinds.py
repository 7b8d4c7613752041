"""Which resource a kind belongs to, where no API server can be asked."""

from collections.abc import Mapping

from sharder.api.meta import api_group
from sharder.names import GroupResource

_SAME_IN_PLURAL = ("endpoints",)
_SIBILANTS = ("s", "x", "z", "ch", "sh")
_VOWELS = frozenset("aeiou")


def resource_of(
    api_version: str, kind: str, known: Mapping[tuple[str, str], GroupResource]
) -> GroupResource:
    """Return the resource of a kind: as in `known`, by group and kind, else the usual plural."""
    group = api_group(api_version)
    return known.get((group, kind)) or GroupResource(group, plural_of(kind))


def plural_of(kind: str) -> str:
    """Return the lower-case plural by the rules of English: `networkpolicies`, `ingresses`.

    Source: what generators of CRDs do for kinds without a plural of their own.  (apimachinery's
    UnsafeGuessKindToResource does not know `gateways`.)
    """
    singular = kind.lower()
    if singular.endswith(_SAME_IN_PLURAL):
        return singular
    if singular.endswith(_SIBILANTS):
        return f"{singular}es"
    if singular.endswith("y") and singular[-2:-1] not in _VOWELS:
        return f"{singular[:-1]}ies"
    return f"{singular}s"
