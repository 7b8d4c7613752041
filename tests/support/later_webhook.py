"""A mutating webhook of somebody else, which the API server calls after that of a ring."""

import base64
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import TypeAlias

import msgspec
from aiohttp import web

from hack.certificates import Authority
from sharder.core.api.meta import Json, PartialObject
from sharder.core.names import GroupResource
from sharder.kube.client import Client

ADDRESS = "127.0.0.1"

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

Patch: TypeAlias = Callable[[PartialObject], list[Json]]
"""Returns the operations of a JSON patch for an object, none to leave it as it is."""


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    name: str = ""
    user_info: _User = _User()
    object: PartialObject = PartialObject()


class _Review(msgspec.Struct, frozen=True):
    request: _Request


@dataclass(slots=True)
class LaterWebhook:
    """What the webhook does, and what it was called for: when each user wrote each object."""

    patch: Patch
    calls: defaultdict[tuple[str, str], list[float]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def writes(self, name: str, *, by: str) -> list[float]:
        """Return the seconds at which users whose names end so wrote the object."""
        return [
            at
            for (user, obj), times in self.calls.items()
            for at in times
            if obj == name and user.endswith(by)
        ]

    async def answer(self, request: web.Request) -> web.Response:
        review = msgspec.json.decode(await request.read(), type=_Review).request
        self.calls[review.user_info.username, review.name].append(time.monotonic())
        answer: dict[str, Json] = {"uid": review.uid, "allowed": True}
        if operations := self.patch(review.object):
            patch = base64.b64encode(msgspec.json.encode(operations)).decode()
            answer |= {"patchType": "JSONPatch", "patch": patch}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")


def pointer(key: str) -> str:
    """Return the JSON pointer to a label."""
    return "/metadata/labels/" + key.replace("/", "~1")


@asynccontextmanager
async def later_webhook(
    client: Client, directory: Path, *, of: GroupResource, label: str, patch: Patch
) -> AsyncIterator[LaterWebhook]:
    """Run the webhook and have it called for objects with the label; `client` may register it."""
    name = f"later-{label}"  # behind `controllerring-…`: the API server calls them in that order
    authority, called = Authority(name), LaterWebhook(patch)
    app = web.Application()
    app.router.add_post("/", called.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(
        runner, ADDRESS, 0, ssl_context=server_context(authority, directory / f"{name}.pem")
    )
    await site.start()
    _, port = runner.addresses[0]
    try:
        body = _configuration(authority, int(port), name, of, label)
        await client.request("POST", CONFIGURATIONS, body=body)
        yield called
    finally:
        await client.request("DELETE", f"{CONFIGURATIONS}/{name}")
        await runner.cleanup()


def server_context(authority: Authority, file: Path) -> ssl.SSLContext:
    """Return the TLS of a server; `file` keeps its certificate and key."""
    identity = authority.issue_server(["localhost"], IPv4Address(ADDRESS))
    file.write_bytes(identity.certificate + identity.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    return context


def _configuration(
    authority: Authority, port: int, name: str, of: GroupResource, label: str
) -> Json:
    rule: Json = {
        "apiGroups": [of.group],
        "apiVersions": ["*"],
        "resources": [of.resource],
        "operations": ["CREATE", "UPDATE"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"{name}.example.com",
                "clientConfig": {
                    "url": f"https://{ADDRESS}:{port}/",
                    "caBundle": base64.b64encode(authority.certificate).decode(),
                },
                "rules": [rule],
                "objectSelector": {"matchLabels": {label: "yes"}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
