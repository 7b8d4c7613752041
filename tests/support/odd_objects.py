"""Objects that a real API server takes, or nearly, as the bytes in which a client sends them."""

import base64
import json
from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sharder.core.api.meta import Json, Resource
from sharder.core.names import GroupResource
from tests.support.odd_reviews import TEXTS, Tree

CONFIGMAPS = Resource(
    id=GroupResource("", "configmaps"), version="v1", kind="ConfigMap", namespaced=True
)
SECRETS = Resource(id=GroupResource("", "secrets"), version="v1", kind="Secret", namespaced=True)
SIGNING_REQUESTS = Resource(
    id=GroupResource("certificates.k8s.io", "certificatesigningrequests"),
    version="v1",
    kind="CertificateSigningRequest",
    namespaced=False,
)
"""Their names may hold anything but `/` and `%`, and no ring over RBAC objects, whose names may,
too, works."""
CRON_JOBS = Resource(
    id=GroupResource("batch", "cronjobs"), version="v1", kind="CronJob", namespaced=True
)

DEEPEST = 5_000
"""Half of what the API server takes."""

_PREFIXES = (
    *(
        "",
        "a",
        "a.b-",
        "x" * 40,
        "y" * 200,
        "system:",
        "🙂",
        "ü",
        "\n",
        '"',
        "'",
        "\\",
        " ",
        "<&>",
    ),
    *("~1", "a b", "\t", "\x7f", "\u2028", "A_B", "{}", "[0]", "#?&=", "null"),
)
"""Of names."""
_PLAIN = ("", "a", "a.b-", "x" * 40, "y" * 200, "web-", "0")
_VALUES = ("", "a", "A_b.C", "1", "x" * 63, "shard-a", "shard-d", "true")
_SPOILT: tuple[Json, ...] = (None, [], ["a"], 7, True, "a", {"a": {"b": None}}, {"🙂": "a"})


def _request() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    signed = request.sign(key, hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


_REQUEST = _request()


class OddObject(NamedTuple):
    """One to create, and what to replace it by."""

    resource: Resource
    number: int
    body: bytes
    replacement: Mapping[str, Json]
    """Metadata; the name comes from what was stored."""


def odd_object(
    rng: Random, number: int, *, run: str, custom: Resource, ours: tuple[str, str, str]
) -> OddObject:
    """Return an object.

    Args:
        rng: Decides.
        number: Makes its name unique among those of the same `run`.
        run: A part of a name.
        custom: A custom resource without a schema.
        ours: Keys of owner label, drain label and the annotation that goes with it.
    """
    resource = rng.choice((CONFIGMAPS, SECRETS, SIGNING_REQUESTS, CRON_JOBS, custom))
    content = _content(rng, resource, custom)
    if resource is CRON_JOBS:  # whose names are limited most
        name: Tree = {"generateName": f"{'x' * rng.randrange(40)}{run}-{number}-"}
    else:
        name = _name(rng, f"{run}-{number}", anything=resource is SIGNING_REQUESTS)
    metadata = {**_metadata(rng, ours), **name}
    group = resource.id.group
    tree: Tree = {
        "apiVersion": f"{group}/{resource.version}" if group else resource.version,
        "kind": resource.kind,
        "metadata": metadata,
        **content,
    }
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.5)
    if resource is custom and rng.random() < 0.1:
        depth = rng.choice((100, 500, 1_500, DEEPEST))
        opened, closed = rng.choice((("[", "]"), ('{"a":', "}")))
        text = f'{text[:-1]}, "deep": {opened * depth}1{closed * depth}}}'
    return OddObject(
        resource=resource,
        number=number,
        body=_damaged(rng, text.encode()),
        replacement=_metadata(rng, ours),
    )


def _name(rng: Random, unique: str, *, anything: bool) -> Tree:
    prefix = rng.choice(_PREFIXES if anything or rng.random() < 0.05 else _PLAIN)
    if rng.random() < 0.25:
        return {"generateName": f"{prefix}{unique}-"}
    if rng.random() < 0.1:
        return {"name": f"{prefix}{unique}", "generateName": rng.choice(TEXTS)}
    return {"name": f"{prefix}{unique}"}


def _metadata(rng: Random, ours: tuple[str, str, str]) -> Tree:
    owner, drain, direction = ours
    labels: Tree = {
        key: rng.choice(_VALUES)
        for key in ("a", "b.c/d", owner, drain)
        if rng.random() < (0.2 if key in ours else 0.5)
    }
    annotations: Tree = {
        key: rng.choice(TEXTS) for key in ("a", "b.c/D_e", direction) if rng.random() < 0.3
    }
    owners: Json = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "name": rng.choice(("s", "🙂", "a b")),
            "uid": "u",
            "controller": rng.random() < 0.5,
        }
    ]
    more: Tree = {
        "labels": labels if rng.random() < 0.8 else None,
        "annotations": annotations,
        "ownerReferences": owners if rng.random() < 0.2 else [],
        "finalizers": ["example.com/f"] if rng.random() < 0.05 else None,
        "uid": rng.choice(TEXTS) if rng.random() < 0.02 else "",
        "creationTimestamp": None,
    }
    if rng.random() < 0.12:
        key = rng.choice(("labels", "annotations", "ownerReferences", "finalizers", "unknown"))
        more[key] = rng.choice(_SPOILT)
    if rng.random() < 0.06:
        labels[rng.choice((owner, drain, "🙂", "", "a/b/c", "z"))] = rng.choice(
            (None, 7, "a b", "🙂")
        )
    return {key: value for key, value in more.items() if rng.random() < 0.8}


def _content(rng: Random, resource: Resource, custom: Resource) -> Tree:
    if resource is CONFIGMAPS:
        return {"data": {rng.choice(("a", "b.c", "🙂")): rng.choice(TEXTS) * 10}}
    if resource is custom:
        odd: tuple[Json, ...] = (*_SPOILT, 2**63 - 1, 2**64, 1e300, 10**400, {"": {"~1": [[]]}})
        return {"spec": rng.choice(odd), rng.choice(("x", "🙂", "", "a/b")): rng.choice(odd)}
    if resource is CRON_JOBS:
        pod: Json = {"containers": [{"name": "a", "image": "b"}], "restartPolicy": "Never"}
        job: Json = {"spec": {"template": {"spec": pod}}}
        return {"spec": {"schedule": "* * * * *", "jobTemplate": job}}
    if resource is SIGNING_REQUESTS:
        return {"spec": {"request": _REQUEST, "signerName": "a.b/c", "usages": ["client auth"]}}
    return {"stringData": {"a": rng.choice(TEXTS)}}


def _damaged(rng: Random, body: bytes) -> bytes:
    """Return the bytes, seldom with what JSON forbids and this server may yet take."""
    if rng.random() >= 0.06:
        return body
    before, after = rng.choice(
        (
            (b'"metadata":', b'"metadata": {"labels": {"twice": "a"}}, "metadata":'),
            (b'"labels":', b'"labels": {"twice": "a"}, "labels":'),
            (b'"annotations":', b'"annotations": {"half": "\\ud800"}, "annotations":'),
            (b'"apiVersion":', b'"note": "\xff", "apiVersion":'),
            (b'"apiVersion":', b'"note": NaN, "apiVersion":'),
            (b'"apiVersion":', b'"unknown": {"a": [1e999]}, "apiVersion":'),
        )
    )
    return body.replace(before, after, 1)
