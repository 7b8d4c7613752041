"""The fence of a ring: a ValidatingAdmissionPolicy that lets a shard write only what it owns.

It judges the ServiceAccounts of the ring's shards and no other client (docs/security.md, "The
fence").  A shard is recognized by the name of the pod that its token is bound to.  What it
says is in fence.yaml, of which the chart has a copy in its files.

The proof that the fence is in force is a dry run that only the policy rejects: a write of the
ring's status that changes nothing.  The policy recognizes it by its field manager, and rejects it
with a message that contains the digest of its own rules and the accounts that it judges.  If no
policy is in force, the dry run passes.  So the sharder needs no right to read policies, and does
not have to trust that a stored policy is also in force.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final, TypeAlias

import msgspec

from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing
from sharder.core.names import (
    API_GROUP,
    APP_LABEL,
    RING_LABEL,
    ObjectRef,
    RingName,
    drain_label,
    owner_label,
)
from sharder.core.ring.build import roles_of
from sharder.core.ring.snapshot import Role

PROBE_MANAGER: Final = "sharder-fence-probe"
"""The field manager of the dry run that the policy rejects for every client."""

_COMPACT: Final = (",", ":")
"""Separators as in helm's toJson."""


def policy_name(ring: RingName) -> str:
    """Return the name of the ring's policy, and of its binding."""
    return f"controllerring-{ring}-fence"


def how_to_apply(ring: RingName) -> str:
    """Return what to do if the fence of a ring is missing or old."""
    return f'apply the output of "sharder fence {ring}", or the chart with rings[].serviceAccounts'


def fence_of(ring: ControllerRing, accounts: Iterable[ObjectRef]) -> tuple[Json, Json]:
    """Return the policy and its binding; `accounts` are the ServiceAccounts of the shards."""
    users = sorted(
        {f"system:serviceaccount:{account.namespace}:{account.name}" for account in accounts}
    )
    metadata: Json = {
        "name": policy_name(ring.name),
        "labels": {APP_LABEL[0]: APP_LABEL[1], RING_LABEL: ring.name},
    }
    rules = _rules(ring)
    policy: Json = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "resourceRules": [*rules["resourceRules"], _probe_rule(ring.name)],
            },
            "matchConditions": _parts(ring, users)["matchConditions"],
            "variables": rules["variables"],
            "validations": [
                {
                    "expression": "!variables.isProbe",
                    "message": answer(ring.name, digest_of(ring), users),
                    "reason": "Forbidden",
                },
                *rules["validations"],
            ],
        },
    }
    binding: Json = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": metadata,
        "spec": {"policyName": policy_name(ring.name), "validationActions": ["Deny"]},
    }
    return policy, binding


def digest_of(ring: ControllerRing) -> str:
    """Return 12 hexadecimal digits that change with the rules of the ring's fence.

    They depend on the ring's resources and on this release, not on the accounts.  helm computes
    them from the same bytes: its toJson sorts keys and escapes three characters.
    """
    encoded = json.dumps(_rules(ring), sort_keys=True, separators=_COMPACT, ensure_ascii=False)
    for character in "<>&":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return hashlib.sha256(encoded.encode()).hexdigest()[:12]


def answer(ring: RingName, digest: str, users: Sequence[str]) -> str:
    """Return the message with which the policy rejects the probe."""
    return f"fence of the ring {ring} stands: rules {digest}, accounts {' '.join(users)}"


def _rules(ring: ControllerRing) -> dict[str, Sequence[Json]]:
    """Return the parts of the spec that the digest covers."""
    parts = _parts(ring)
    return {
        "resourceRules": [*_object_rules(ring), _rule("coordination.k8s.io", ["leases"])],
        "variables": parts["variables"],
        "validations": parts["validations"],
    }


def _parts(ring: ControllerRing, users: Sequence[str] = ()) -> Mapping[str, Sequence[Json]]:
    """Return the parts of the spec in fence.yaml, filled in."""
    main = [str(of) for of, role in roles_of(ring).items() if role is not Role.CONTROLLED]
    return _filled(ring.name, json.dumps(sorted(main), separators=_COMPACT), tuple(users))


@lru_cache(maxsize=64)  # A ring has a new status more often than other resources.
def _filled(ring: RingName, main: str, users: tuple[str, ...]) -> Mapping[str, Sequence[Json]]:
    text = files(__package__).joinpath("fence.yaml").read_text()
    words = {
        "$RING": ring,
        "$OWNER": owner_label(ring),
        "$DRAIN": drain_label(ring),
        "$MAIN": main,
        "$USERS": json.dumps(users, separators=_COMPACT),
    }
    for word, value in words.items():
        text = text.replace(word, value)
    parts: Mapping[str, Sequence[Json]] = msgspec.yaml.decode(text)
    return parts


def _probe_rule(ring: RingName) -> Json:
    return {
        "apiGroups": [API_GROUP],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["controllerrings/status"],
        "resourceNames": [ring],
    }


def _object_rules(ring: ControllerRing) -> list[Json]:
    """Return one rule for each group; `pods/*` covers Pods and all their subresources."""
    resources = sorted(roles_of(ring))
    return [
        _rule(group, [f"{each.resource}/*" for each in resources if each.group == group])
        for group in sorted({each.group for each in resources})
    ]


def _rule(group: str, resources: Sequence[str]) -> Json:
    return {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": list(resources),
    }


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
