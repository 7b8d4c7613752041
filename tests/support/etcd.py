"""Requests of tests to etcd that the API server does not see."""

import json
import urllib.request


def compact(url: str) -> int:
    """Compact etcd at its current revision; return that revision.

    Lists and watches from an older revision get the answer that it has expired.  The API server's
    own watches are at the current revision, so they continue.

    Source:
        etcd v3.6 `api/etcdserverpb/rpc.proto`, `KV.Compact`, through its gRPC gateway, which
        writes 64-bit numbers as strings.
    """
    revision = int(_call(url, "maintenance/status", {})["header"]["revision"])
    _call(url, "kv/compaction", {"revision": str(revision), "physical": True})
    return revision


def _call(url: str, method: str, body: dict[str, str | bool]) -> dict[str, dict[str, str]]:
    request = urllib.request.Request(  # noqa: S310 - http on the loopback
        f"{url}/v3/{method}", data=json.dumps(body).encode()
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        content: dict[str, dict[str, str]] = json.load(answer)
        return content
