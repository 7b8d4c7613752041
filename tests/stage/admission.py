"""Admission of the stage's API server: mutating webhooks in order, then policies."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from typing_extensions import override

from sharder.core.api.meta import Json, Resource
from sharder.core.movement.patches import Operation
from sharder.core.names import GroupResource, ObjectRef
from sharder.sdk.testing.requests import Refused
from sharder.sdk.testing.storage import Tree
from sharder.sdk.testing.writer import Admission, Attributes
from tests.stage.cel import CelError, evaluate
from tests.support.full_server import FullServer
from tests.support.json_patch import PatchError, apply_json_patch

Webhook: TypeAlias = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a review (path and body); a failure of the call is an `OSError`."""

_GROUP: Final = "admissionregistration.k8s.io"
_MUTATING: Final = GroupResource(_GROUP, "mutatingwebhookconfigurations")
POLICIES: Final = Resource(
    id=GroupResource(_GROUP, "validatingadmissionpolicies"),
    version="v1",
    kind="ValidatingAdmissionPolicy",
    namespaced=False,
)
BINDINGS: Final = Resource(
    id=GroupResource(_GROUP, "validatingadmissionpolicybindings"),
    version="v1",
    kind="ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
_CODES: Final = {"Forbidden": 403, "Invalid": 422, "Unauthorized": 401}
_NAMESPACES: Final = GroupResource("", "namespaces")


class StageAdmission(Admission):
    """Calls the webhooks and judges by the policies that the API server's cache shows."""

    def __init__(self, server: FullServer, webhooks: Mapping[str, Webhook]) -> None:
        """`webhooks` are by the host of their URL."""
        self._server = server
        self._webhooks = webhooks
        self._uids = 0

    @override
    async def mutate(self, attributes: Attributes) -> Tree:
        """Return the object as webhooks changed it.

        Each is asked once, and once more if others changed the object after it and it wants that.
        """
        webhooks = self._webhooks_in_order()
        tree, again = await self._ask_all(webhooks, attributes)
        tree, _ = await self._ask_all(again, attributes._replace(obj=tree))
        return tree

    async def _ask_all(
        self, webhooks: Sequence[Tree], attributes: Attributes
    ) -> tuple[Tree, list[Tree]]:
        """Return the object, and the webhooks that want to see what later ones changed."""
        tree = attributes.obj
        assert tree is not None
        asked, again = list[Tree](), list[Tree]()
        for webhook in webhooks:
            now = attributes._replace(obj=tree)
            if not self._matches(webhook, now):
                continue
            before, tree = tree, await self._ask(webhook, now)
            if tree != before:
                again += asked
                asked = []
            if webhook.get("reinvocationPolicy") == "IfNeeded":
                asked.append(webhook)
        return tree, again

    async def _ask(self, webhook: Tree, attributes: Attributes) -> Tree:
        """Return the object after one webhook; a call that fails changes nothing."""
        tree = attributes.obj
        assert tree is not None
        self._uids += 1
        config: Any = webhook["clientConfig"]
        url = str(config.get("url") or "https://service" + config["service"]["path"])
        host, _, path = url.removeprefix("https://").partition("/")
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": _request(attributes) | {"uid": f"review-{self._uids}"},
        }
        try:
            async with asyncio.timeout(float(str(webhook.get("timeoutSeconds", 10)))):
                answer = await self._webhooks[host](f"/{path}", msgspec.json.encode(review))
        except (OSError, KeyError, TimeoutError) as error:
            if webhook.get("failurePolicy") == "Ignore":
                return tree
            raise Refused(500, f"failed calling webhook: {error!r}") from error
        response = msgspec.json.decode(answer)["response"]
        if not response["allowed"]:
            raise Refused(400, "admission webhook denied the request", "")
        if "patch" not in response:
            return tree
        patch = msgspec.json.decode(base64.b64decode(response["patch"]), type=list[Operation])
        try:
            changed = apply_json_patch(tree, patch)
        except PatchError as error:
            raise Refused(500, str(error)) from error
        assert isinstance(changed, dict)
        return changed

    @override
    def validate(self, attributes: Attributes) -> None:
        """Judge by the policies that are bound."""
        cached = self._server.cached
        bound = {
            _at(stored.tree, "spec", "policyName")
            for stored in cached.get(BINDINGS.id, {}).values()
        }
        for ref, stored in cached.get(POLICIES.id, {}).items():
            spec: Any = stored.tree["spec"]
            constraints = spec["matchConstraints"]
            if ref.name in bound and self._is_covered(
                constraints["resourceRules"], constraints, attributes
            ):
                _judge(spec, attributes)

    def _webhooks_in_order(self) -> list[Tree]:
        configurations: Any = sorted(self._server.cached.get(_MUTATING, {}).items())
        return [
            webhook
            for _, stored in configurations
            for webhook in stored.tree.get("webhooks") or ()
        ]

    def _matches(self, webhook: Any, attributes: Attributes) -> bool:
        return self._is_covered(webhook["rules"], webhook, attributes) and _conditions_hold(
            webhook.get("matchConditions"), _scope(attributes)
        )

    def _is_covered(self, rules: Any, selecting: Any, attributes: Attributes) -> bool:
        """Return whether a rule is about a write, and the selectors are too."""
        if not any(_covers(rule, attributes) for rule in rules):
            return False
        if not selects(selecting.get("namespaceSelector"), self._namespace_labels(attributes)):
            return False
        either = [_labels(each) for each in (attributes.obj, attributes.old) if each is not None]
        return any(selects(selecting.get("objectSelector"), each) for each in either)

    def _namespace_labels(self, attributes: Attributes) -> Mapping[str, str] | None:
        """Return the labels that a namespaceSelector judges, None if it does not apply."""
        if attributes.resource.id == _NAMESPACES:
            return _labels(attributes.obj or {})
        if not attributes.resource.namespaced:
            return None
        ref = ObjectRef("", attributes.place.namespace)
        stored = self._server.cached.get(_NAMESPACES, {}).get(ref)
        return {} if stored is None else stored.meta.labels or {}


def selects(wanted: Any, labels: Mapping[str, str] | None) -> bool:
    """Return whether a LabelSelector matches; labels of None always match."""
    if not wanted or labels is None:
        return True
    if any(labels.get(key) != value for key, value in (wanted.get("matchLabels") or {}).items()):
        return False
    return all(_holds(each, labels) for each in wanted.get("matchExpressions") or ())


def _holds(requirement: Any, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement["key"]), requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case _:
            return value is None


def _covers(rule: Any, attributes: Attributes) -> bool:
    place = attributes.place
    name = f"{place.resource}/{place.subresource}" if place.subresource else place.resource
    resources = {name, f"{place.resource}/*", "*"} if place.subresource else {name, "*"}
    if not place.subresource:
        resources.add(f"{place.resource}/*")  # of a policy; webhooks do not use it
    return (
        attributes.operation in rule["operations"]
        and not {place.group, "*"}.isdisjoint(rule["apiGroups"])
        and bool(resources & set(rule["resources"]))
        and (not rule.get("resourceNames") or place.name in rule["resourceNames"])
    )


def _judge(spec: Any, attributes: Attributes) -> None:
    """Raise `Refused` if a validation of the policy fails."""
    scope = _scope(attributes)
    if not _conditions_hold(spec.get("matchConditions"), scope):
        return
    variables: dict[str, Any] = {}
    scope["variables"] = variables
    for each in spec.get("variables") or ():
        variables[each["name"]] = evaluate(each["expression"], scope)
    for validation in spec["validations"]:
        if not evaluate(validation["expression"], scope):
            text = validation["message"]
            if "messageExpression" in validation:
                text = evaluate(validation["messageExpression"], scope)
            code = _CODES[validation.get("reason", "Invalid")]
            raise Refused(code, f"ValidatingAdmissionPolicy denied request: {text}")


def _conditions_hold(conditions: Any, scope: Mapping[str, Any]) -> bool:
    try:
        return all(evaluate(each["expression"], scope) for each in conditions or ())
    except CelError:
        return False


def _scope(attributes: Attributes) -> dict[str, Any]:
    return {
        "object": attributes.obj,
        "oldObject": attributes.old,
        "request": {key: each for key, each in _request(attributes).items() if each is not None},
    }


def _request(attributes: Attributes) -> dict[str, Json]:
    call, place, resource = attributes.call, attributes.place, attributes.resource
    kind: Json = {"group": place.group, "version": place.version, "kind": resource.kind}
    extra: Json = {key: list(values) for key, values in call.client.extra.items()}
    return {
        "kind": kind,
        "resource": {
            "group": place.group,
            "version": place.version,
            "resource": place.resource,
        },
        "subResource": place.subresource or None,
        "name": place.name or _at(attributes.obj or {}, "metadata", "name"),
        "namespace": place.namespace or None,
        "operation": attributes.operation,
        "userInfo": {"username": call.client.username, "extra": extra},
        "object": attributes.obj,
        "oldObject": attributes.old,
        "dryRun": call.dry_run,
        "options": {"fieldManager": call.query.get("fieldManager", "")},
    }


def _labels(tree: Tree) -> Mapping[str, str]:
    labels = _at(tree, "metadata", "labels")
    return {key: str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


def _at(value: Json, *keys: str) -> Json:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
