"""Bodies that may come to the webhook: good reviews of odd objects, bad reviews, and junk.

A grammar over `random.Random`, so that it can be driven by a seed, in bulk, or by Hypothesis,
which shrinks what it finds.  Most of what it makes can be decoded: junk alone finds little.
"""

import json
from collections.abc import Callable
from random import Random
from typing import NamedTuple, TypeAlias

from sharder.core.api.meta import Json
from tests.support.values import DRAIN, NEXT, OWNER

Tree: TypeAlias = dict[str, Json]

MAX_DEPTH = 12_000
"""More than the 10,000 that the API server takes."""

_DEEP = "@deep@"
"""Stands in a tree where something nested deeply is to be."""

TEXTS = (
    *("", "a", "w-1", "shard-a", "shard-b", "shard-d", "default", "Secret", "v1", "apps/v1"),
    *("a/b", "~", "~1", "~0", "a~1b", "/", "//", "..", "%2f", "<>&", "x.y.z", " ", " a ", "null"),
    *("\n", "a\nb", "\t", '"', "\\", "\\u0041", "\x00", "\x7f", "\u2028", "\ufeff", "ü", "🙂", "́"),
    *("a" * 63, "a" * 64, "a" * 253, "b" * 254, "ü" * 63, "-", "-a", "a-", "A_b.C", "true", "1"),
)
_NUMBERS: tuple[Json, ...] = (
    *(0, 1, -1, 7, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**400, 0.5, 1e300, -0.0),
)
_OTHER: tuple[Json, ...] = (None, True, False, [], {}, [1], {"a": None}, [[]], "x", 7)
_KEYS = (OWNER, OWNER, DRAIN, NEXT, "example.com/x", "a~1b", "~", "/", "", "a", "🙂", '"', "\n")
_USERS = (
    *("alice", "", "sharder", "system:serviceaccount:default:op", "system:serviceaccount:"),
    *("system:serviceaccount::", "system:serviceaccount:a:b:c", "\n", "🙂" * 100),
)
_OPERATIONS: tuple[Json, ...] = (
    *("CREATE",) * 12,
    *("UPDATE",) * 15,
    *("DELETE", "CONNECT", "PATCH", "create", "", None, 7, ["CREATE"]),
)
_RESOURCES: tuple[Json, ...] = (
    *({"group": "example.com", "version": "v1", "resource": "widgets"},) * 4,
    *({"group": "", "version": "v1", "resource": "secrets"},) * 4,
    *({"version": "v1", "resource": "configmaps"},) * 4,
    {"group": "apps", "version": "v1", "resource": "unknown"},
    {"group": "", "resource": ""},
    {},
)
_POD_NAME = "authentication.kubernetes.io/pod-name"


class Body(NamedTuple):
    """What is sent, and the same without what is nested deeply, for a judge to read."""

    sent: bytes
    shallow: bytes


def body(rng: Random) -> Body:
    """Return one body."""
    kind = rng.random()
    if kind < 0.02:
        return _plain(rng.randbytes(rng.randrange(40)))
    if kind < 0.04:
        return _plain(_text(rng, rng.choice((*_OTHER, *_NUMBERS))).encode())
    text = _text(rng, _review(rng))
    if kind < 0.85:
        return _deepened(rng, text)
    shallow = text.replace(f'"{_DEEP}"', "0")
    damage = rng.choice((_truncated, _flipped, _doubled, _foreign, _trailed))
    return _plain(damage(rng, shallow.encode()))


def _review(rng: Random) -> Json:
    request = _request(rng)
    if rng.random() < 0.05:
        _spoil(rng, request)
    review: Tree = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": request,
    }
    if rng.random() < 0.02:
        _spoil(rng, review)
    if rng.random() < 0.02:
        review["unknown"] = _DEEP
    return _shuffled(rng, review)


def _request(rng: Random) -> Tree:
    operation = rng.choice(_OPERATIONS)
    new = _object(rng)
    old = None if operation == "CREATE" and rng.random() < 0.9 else _old(rng, new)
    request: Tree = {
        "uid": rng.choice(TEXTS) if rng.random() < 0.1 else f"uid-{rng.randrange(1_000_000)}",
        "operation": operation,
        "resource": rng.choice(_RESOURCES),
        "userInfo": _user(rng),
        "object": new,
        "oldObject": old,
        "dryRun": rng.choice((True, False, None)),
        "name": rng.choice(TEXTS),
        "options": {"kind": "CreateOptions"},
    }
    if rng.random() < 0.02:
        request["object"] = rng.choice(_OTHER)
    if rng.random() < 0.02:
        request["oldObject"] = rng.choice(_OTHER)
    return _shuffled(rng, request)


def _object(rng: Random) -> Tree:
    tree: Tree = {
        "apiVersion": rng.choice(("v1", "apps/v1", "example.com/v1", "a/b/c", "/", "")),
        "kind": rng.choice(("Secret", "Widget", "ConfigMap", "", "🙂")),
        "metadata": _metadata(rng),
        "spec": _anything(rng),
    }
    if rng.random() < 0.05:
        _spoil(rng, tree)
    if rng.random() < 0.01:
        tree["spec"] = _DEEP
    return tree


def _old(rng: Random, new: Tree) -> Tree:
    """Return what the object was: often with other labels only, as while a shard acknowledges."""
    if rng.random() < 0.3:
        return _object(rng)
    metadata = new.get("metadata")
    before: Tree = dict(metadata) if isinstance(metadata, dict) else {}
    labels = before.get("labels")
    kept: Tree = dict(labels) if isinstance(labels, dict) else {}
    ours: Tree = {OWNER: rng.choice(("shard-a", "shard-b", "shard-d", "")), DRAIN: "true"}
    before["labels"] = kept | {key: ours[key] for key in ours if rng.random() < 0.7}
    return {**new, "metadata": before}


def _metadata(rng: Random) -> Json:
    tree: Tree = {
        "name": rng.choice(TEXTS),
        "generateName": rng.choice(TEXTS),
        "namespace": rng.choice(TEXTS),
        "uid": rng.choice(TEXTS),
        "resourceVersion": "7",
        "generation": rng.choice((0, 1, 2**62)),
        "creationTimestamp": None,
        "labels": _map(rng),
        "annotations": _map(rng),
        "ownerReferences": _owners(rng),
        "managedFields": [{"manager": "x", "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}}}],
    }
    for key in tuple(tree):
        if rng.random() < 0.3:
            del tree[key]
    if rng.random() < 0.06:
        _spoil(rng, tree)
    if rng.random() < 0.01:
        tree["managedFields"] = _DEEP
    return rng.choice(_OTHER) if rng.random() < 0.02 else tree


def _map(rng: Random) -> Json:
    if rng.random() < 0.2:
        return rng.choice((None, {}))
    values = ("shard-a", "shard-b", "shard-c", "", "true", *TEXTS)
    tree: Tree = {rng.choice(_KEYS): rng.choice(values) for _ in range(rng.randrange(5))}
    if rng.random() < 0.05:
        tree[rng.choice(_KEYS)] = rng.choice(_OTHER)
    return tree


def _owners(rng: Random) -> Json:
    return [
        {
            "apiVersion": rng.choice(("v1", "example.com/v1", "")),
            "kind": rng.choice(("Secret", "Widget", "")),
            "name": rng.choice(TEXTS),
            "uid": "u",
            "controller": rng.choice((True, True, False, None)),
        }
        for _ in range(rng.randrange(3))
    ]


def _user(rng: Random) -> Json:
    names: Json = [rng.choice(TEXTS) for _ in range(rng.randrange(3))]
    extra: Json = rng.choice((None, {}, {_POD_NAME: names}, {_POD_NAME: None}, {"x": ["y"]}))
    user: Tree = {"username": rng.choice(_USERS), "groups": ["a"], "extra": extra}
    if rng.random() < 0.05:
        _spoil(rng, user)
    return user


def _anything(rng: Random) -> Json:
    return rng.choice((*_OTHER, *_NUMBERS, {"text": rng.choice(TEXTS) * rng.randrange(200)}))


def _spoil(rng: Random, tree: Tree) -> None:
    """Take a member away, or make it something else."""
    key = rng.choice(sorted(tree) or ["name"])
    if key in tree and rng.random() < 0.3:
        del tree[key]
    else:
        tree[key] = rng.choice((*_OTHER, *_NUMBERS))


def _shuffled(rng: Random, tree: Tree) -> Tree:
    keys = list(tree)
    if rng.random() < 0.5:
        rng.shuffle(keys)
    return {key: tree[key] for key in keys}


def _text(rng: Random, tree: Json) -> str:
    compact = rng.random() < 0.8
    return json.dumps(
        tree,
        ensure_ascii=rng.random() < 0.5,
        separators=(",", ":") if compact else (" ,\n", "\t: "),
    )


def _plain(sent: bytes) -> Body:
    return Body(sent, sent)


def _deepened(rng: Random, text: str) -> Body:
    head, mark, tail = text.partition(f'"{_DEEP}"')
    tail = tail.replace(f'"{_DEEP}"', "0")
    if not mark:
        return _plain(text.encode())
    depth = rng.choice((10, 500, 990, 1_010, 5_000, MAX_DEPTH)) // 2
    opened, closed = rng.choice((('{"a":[', "]}"), ('[{"}":', "}]"), ("[[", "]]")))
    deep = opened * depth + "1" + closed * depth
    return Body(f"{head}{deep}{tail}".encode(), f"{head}0{tail}".encode())


def _truncated(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _flipped(rng: Random, data: bytes) -> bytes:
    """Change a few bytes, most of them to such as mean something in JSON."""
    spoilt = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        spoilt[rng.randrange(len(spoilt))] = rng.choice(b'{}[]:,"\\u0nt-e.\x00\xff\xc3\xed\x80')
    return bytes(spoilt)


def _doubled(rng: Random, data: bytes) -> bytes:
    """Let a key stand there twice, each time with another value."""
    key = rng.choice((b'"uid":', b'"request":', b'"object":', b'"metadata":', b'"labels":'))
    value = _text(rng, rng.choice((*_OTHER, *_NUMBERS))).encode()
    return data.replace(key, key + value + b"," + key)


def _foreign(rng: Random, data: bytes) -> bytes:
    """Put in what is no JSON, or hardly: NaN, half a surrogate pair, bytes that are no UTF-8."""
    words = (
        b"NaN",
        b"-Infinity",
        b'"\\ud800"',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b"01",
        b"1e999",
        b"'",
    )
    place: Callable[[bytes], bytes] = rng.choice(
        (lambda w: b":" + w + b',"x":', lambda w: b":" + w)
    )
    return data.replace(b":", place(rng.choice(words)), rng.randrange(1, 3))


def _trailed(rng: Random, data: bytes) -> bytes:
    return data + rng.choice((b" ", b"\n", b"x", b"{}", b"\x00", b","))
