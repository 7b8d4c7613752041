"""A mutating webhook that takes the owner label off again, as a careless policy would."""

import base64
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path

import msgspec
from aiohttp import web

from hack.certificates import Authority
from hack.ownership import OWNER
from sharder.core.api.meta import Json, PartialObject
from sharder.kube.client import Client

ADDRESS = "127.0.0.1"
LABEL = "strip"
"""Objects with this label lose their owner."""

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
NAME = "stripping"
"""Sorts behind `controllerring-…`: the API server calls webhooks in that order."""


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
class Stripping:
    """What the webhook was called for: when each user wrote each object."""

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
        if review.object.metadata.has_label(OWNER):
            path = "/metadata/labels/" + OWNER.replace("/", "~1")
            patch = msgspec.json.encode([{"op": "remove", "path": path}])
            answer |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")


@asynccontextmanager
async def stripping(client: Client, directory: Path) -> AsyncIterator[Stripping]:
    """Run the webhook and have it called for Secrets with the label; `client` may register it."""
    authority, called = Authority("stripping"), Stripping()
    app = web.Application()
    app.router.add_post("/", called.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, ADDRESS, 0, ssl_context=_tls(authority, directory))
    await site.start()
    _, port = runner.addresses[0]
    try:
        await client.request("POST", CONFIGURATIONS, body=_configuration(authority, int(port)))
        yield called
        await client.request("DELETE", f"{CONFIGURATIONS}/{NAME}")
    finally:
        await runner.cleanup()


def _tls(authority: Authority, directory: Path) -> ssl.SSLContext:
    identity = authority.issue_server(["localhost"], IPv4Address(ADDRESS))
    file = directory / f"{NAME}.pem"
    file.write_bytes(identity.certificate + identity.key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file)
    return context


def _configuration(authority: Authority, port: int) -> Json:
    rule: Json = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["secrets"],
        "operations": ["CREATE", "UPDATE"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": "stripping.example.com",
                "clientConfig": {
                    "url": f"https://{ADDRESS}:{port}/",
                    "caBundle": base64.b64encode(authority.certificate).decode(),
                },
                "rules": [rule],
                "objectSelector": {"matchLabels": {LABEL: "yes"}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
