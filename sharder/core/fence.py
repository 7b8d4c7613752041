"""The fence of a ring: a ValidatingAdmissionPolicy that lets a shard write only what it owns.

It judges the ServiceAccounts of the ring's shards and no other client (docs/security.md, "The
fence").  A shard is recognized by the name of the pod that its token is bound to.  The manifests
are in fence.yaml, of which the chart has a copy in its files: both fill in the same text.

The proof that the fence is in force is a dry run that only the policy rejects: a write of the
ring's status that changes nothing.  The policy recognizes it by its field manager, and rejects it
with a message that contains the digest of its own rules and the accounts that it judges.  If no
policy is in force, the dry run passes.  So the sharder needs no right to read policies, and does
not have to trust that a stored policy is also in force.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, TypeAlias

import msgspec

from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing
from sharder.core.names import APP_LABEL, RING_LABEL, ObjectRef, RingName, drain_label, owner_label
from sharder.core.ring.build import roles_of
from sharder.core.ring.snapshot import Role

PROBE_MANAGER: Final = "sharder-fence-probe"
"""The field manager of the dry run that the policy rejects for every client."""


def how_to_apply(ring: RingName) -> str:
    """Return what to do if the fence of a ring is missing or old."""
    return f'apply the output of "sharder fence {ring}", or the chart with rings[].serviceAccounts'


def fence_of(ring: ControllerRing, accounts: Iterable[ObjectRef]) -> tuple[Json, Json]:
    """Return the policy and its binding; `accounts` are the ServiceAccounts of the shards."""
    users = sorted(
        {f"system:serviceaccount:{account.namespace}:{account.name}" for account in accounts}
    )
    labels = {APP_LABEL[0]: APP_LABEL[1], RING_LABEL: ring.name}
    text = _filled(
        _rules_of(ring),
        {
            "$METADATA": _json({"labels": labels})[1:-1],
            "$USERS": _json(users),
            "$ACCOUNTS": " ".join(users),
            "$DIGEST": digest_of(ring),
        },
    )
    policy, binding = map(msgspec.yaml.decode, text.split("\n---\n"))
    return policy, binding


def digest_of(ring: ControllerRing) -> str:
    """Return 12 hexadecimal digits that change with the rules of the ring's fence.

    They depend on the ring's resources and on this release, not on the accounts.
    """
    return hashlib.sha256(_rules_of(ring).encode()).hexdigest()[:12]


def _rules_of(ring: ControllerRing) -> str:
    """Return the manifests with all that depends on the ring alone; helm makes the same text."""
    roles = roles_of(ring)
    main = sorted(str(of) for of, role in roles.items() if role is not Role.CONTROLLED)
    rules = [
        {
            "apiGroups": [group],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            # `pods/*` stands for Pods and all their subresources.
            "resources": [f"{of.resource}/*" for of in sorted(roles) if of.group == group],
        }
        for group in sorted({of.group for of in roles})
    ]
    words = {
        "$RING": ring.name,
        "$OWNER": owner_label(ring.name),
        "$DRAIN": drain_label(ring.name),
        "$MAIN": _json(main),
        "$RULES": _json(rules)[1:-1],
    }
    return _filled(_template(), words)


@cache
def _template() -> str:
    return files(__package__).joinpath("fence.yaml").read_text()


def _filled(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _json(value: Json) -> str:
    """Return JSON as helm's toJson writes it, if no text in it has one of `<>&`."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


_ANSWER: Final = re.compile(
    r"fence of the ring (?P<ring>\S+) stands: rules (?P<digest>[0-9a-f]{12}), "
    r"accounts(?P<users>(?: system:serviceaccount:[^\s:]+:[^\s:]+)*)"
)
_PREFIX: Final = "system:serviceaccount:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A fence that the API server enforces."""

    digest: str
    """The digest of its rules, as from `digest_of`."""
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
