"""The fence of a ring: a ValidatingAdmissionPolicy that lets a shard write only what it owns.

It judges the ServiceAccounts of the ring's shards and no other client (docs/security.md, "The
fence").  A shard is recognized by the name of the pod that its token is bound to.  The chart
renders the same policy, which tests/chart/test_fence.py compares.

The proof that the fence is in force is a dry run that only the policy rejects: a write of the
ring's status that changes nothing.  The policy recognizes it by its field manager, and rejects it
with a message that contains the digest of its own rules and the accounts that it judges.  If no
policy is in force, the dry run passes.  So the sharder needs no right to read policies, and does
not have to trust that a stored policy is also in force.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sharder.core.api.meta import Json
from sharder.core.api.ring import ControllerRing
from sharder.core.movement.acknowledgement import POD_CLAIM
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

_POD: Final = f"request.userInfo.?extra['{POD_CLAIM}'][0].orValue('')"

_WHAT: Final = (
    "request.resource.resource + ' ' + (request.?namespace.orValue('') == '' ? ''"
    " : request.namespace + '/') + variables.name"
)


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
            "matchConditions": [
                {"name": "fenced", "expression": _is_judged(users)},
                {"name": "notAnUpdateByTheOwner", "expression": _is_to_check(ring.name)},
            ],
            "variables": rules["variables"],
            "validations": [
                _deny("!variables.isProbe", message=answer(ring.name, digest_of(ring), users)),
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
    encoded = json.dumps(_rules(ring), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        encoded = encoded.replace(character, f"\\u{ord(character):04x}")
    return hashlib.sha256(encoded.encode()).hexdigest()[:12]


def answer(ring: RingName, digest: str, users: Sequence[str]) -> str:
    """Return the message with which the policy rejects the probe."""
    return f"fence of the ring {ring} stands: rules {digest}, accounts {' '.join(users)}"


def _rules(ring: ControllerRing) -> dict[str, list[Json]]:
    """Return the parts of the spec that the digest covers."""
    return {
        "resourceRules": [*_object_rules(ring), _rule("coordination.k8s.io", ["leases"])],
        "variables": [
            {"name": name, "expression": expression} for name, expression in _variables(ring)
        ],
        "validations": _validations(ring.name),
    }


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


def _is_judged(users: Sequence[str]) -> str:
    """Match the accounts and the probe; a shard is not judged when it writes the ring's status."""
    return (
        f"request.resource.group == '{API_GROUP}' ? request.?dryRun.orValue(false)"
        f" && request.?options.?fieldManager.orValue('') == '{PROBE_MANAGER}'"
        f" : request.userInfo.?username.orValue('') in {_list(users)}"
    )


def _is_to_check(ring: RingName) -> str:
    """Match all but the usual write, which every validation admits; this saves most of its cost.

    It is an update of an object that the shard owns before and after, and that does not drain.
    """
    return (
        "request.operation != 'UPDATE' || request.?subResource.orValue('') != ''"
        f" || request.resource.group in ['{API_GROUP}', 'coordination.k8s.io'] || {_POD} == ''"
        f" || [oldObject, object].exists(each, each.?metadata.?labels['{owner_label(ring)}']"
        f".orValue('') != {_POD})"
        f" || object.?metadata.?labels['{drain_label(ring)}'].hasValue()"
    )


def _variables(ring: ControllerRing) -> Iterable[tuple[str, str]]:
    """Yield names and expressions; any label, and any field of metadata, can be missing."""
    owner, drain = owner_label(ring.name), drain_label(ring.name)
    main = sorted(str(of) for of, role in roles_of(ring).items() if role is not Role.CONTROLLED)
    yield "isProbe", f"request.resource.group == '{API_GROUP}'"
    yield "isLease", "request.resource.group == 'coordination.k8s.io'"
    # The webhook has already set the owner of such an object.
    yield (
        "isMainCreate",
        "request.operation == 'CREATE' && request.?subResource.orValue('') == ''"
        " && (request.resource.group == '' ? request.resource.resource"
        f" : request.resource.resource + '.' + request.resource.group) in {_list(main)}",
    )
    yield "isObject", "!variables.isProbe && !variables.isLease && !variables.isMainCreate"
    yield (
        "isRingLease",
        "variables.isLease && [object, oldObject].exists(each, each != null"
        f" && each.?metadata.?labels['{RING_LABEL}'].orValue('') == '{ring.name}')",
    )
    yield "name", "(object == null ? oldObject : object).?metadata.?name.orValue('')"
    yield "pod", _POD
    for name, source in (("ownerBefore", "oldObject"), ("ownerAfter", "object")):
        label = f"{source}.?metadata.?labels['{owner}'].orValue('')"
        yield name, f"{source} == null ? '' : {label}"
    for name, source in (("drainsBefore", "oldObject"), ("drainsAfter", "object")):
        label = f"{source}.?metadata.?labels['{drain}'].hasValue()"
        yield name, f"{source} != null && {label}"
    yield (
        "owner",
        "request.operation == 'CREATE' ? variables.ownerAfter : variables.ownerBefore",
    )


def _validations(ring: RingName) -> list[Json]:
    of = f"ring {ring}: "
    return [
        _deny(
            "!(variables.isObject || variables.isRingLease) || variables.pod != ''",
            message=f"{of}the token of a shard must be bound to its pod: use the one that is"
            " projected into the pod, not one of a Secret",
        ),
        _deny(
            "!variables.isRingLease || variables.name == variables.pod",
            message=f"{of}a shard writes only the Lease with the name of its pod",
            expression=f"'{of}the pod ' + variables.pod + ' must not write the Lease '"
            " + variables.name + ': a shard has the name of its pod, and writes only its own"
            " Lease'",
        ),
        _deny(
            "!variables.isObject || request.?subResource.orValue('') == ''"
            " || (request.operation != 'CREATE' && request.subResource != 'scale')",
            message=f"{of}a shard must not use scale and other subresources that do not show who"
            " owns the object: write the object itself",
        ),
        _deny(
            "!variables.isObject || variables.owner in ['', variables.pod]",
            message=f"{of}the object belongs to another shard: stop work on it",
            expression=f"'{of}' + {_WHAT} + ' belongs to the shard ' + variables.owner"
            " + ', not to ' + variables.pod + ': stop work on it'",
        ),
        _deny(
            "!variables.isObject || !variables.drainsAfter || variables.drainsBefore",
            message=f"{of}only the sharder drains objects: leave out the label"
            f" {drain_label(ring)}",
        ),
        _deny(
            "!variables.isObject || variables.ownerAfter in ['', variables.pod]"
            " || (variables.drainsBefore && !variables.drainsAfter)",
            message=f"{of}only the sharder gives objects to other shards: leave the label"
            f" {owner_label(ring)} as it is, or remove it with the drain label",
        ),
    ]


def _deny(unless: str, *, message: str, expression: str = "") -> Json:
    """Return a validation; `expression` computes a message with more detail."""
    detail: dict[str, Json] = {"messageExpression": expression} if expression else {}
    return {"expression": unless, "message": message, "reason": "Forbidden", **detail}


def _list(texts: Sequence[str]) -> str:
    """Return a CEL list, as helm's toJson writes it."""
    return json.dumps(texts, separators=(",", ":"))


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
