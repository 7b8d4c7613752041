"""The proof that a ring's fence is in force: a dry run that only its policy rejects.

The dry run is a write of the ring's status that changes nothing.  The policy recognizes it by its
field manager, and rejects it with a message that contains the digest of its own rules and the
accounts that it judges.  If no policy is in force, the dry run passes.  So the sharder needs no
right to read policies, and does not have to trust that a stored policy is also in force.
"""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from sharder.core.names import RingName

_ANSWER: Final = re.compile(
    r"fence of the ring (?P<ring>\S+) stands: rules (?P<digest>[0-9a-f]{12}), "
    r"accounts(?P<users>(?: system:serviceaccount:[^\s:]+:[^\s:]+)*)"
)
_PREFIX: Final = "system:serviceaccount:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A fence that the API server enforces."""

    digest: str
    """The digest of its rules, as from `policy.digest_of`."""
    users: tuple[str, ...]
    """The users that it judges, each as `system:serviceaccount:NAMESPACE:NAME`."""

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces of the accounts."""
        return frozenset(user.removeprefix(_PREFIX).partition(":")[0] for user in self.users)


@dataclass(frozen=True, slots=True)
class NoFence:
    """The dry run passed: no fence is in force."""


@dataclass(frozen=True, slots=True)
class UnknownFence:
    """The dry run had another result, which proves nothing."""

    why: str


Proof: TypeAlias = Fence | NoFence | UnknownFence


def proof_of(refusal: str, ring: RingName) -> Fence | UnknownFence:
    """Return what the rejection of the dry run proves; `refusal` is its message."""
    found = _ANSWER.search(refusal)
    if found is None or found["ring"] != ring:
        return UnknownFence(refusal)
    return Fence(digest=found["digest"], users=tuple(found["users"].split()))
