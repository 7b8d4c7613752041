"""What the documents give to the API server is taken by it: manifests and requests."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
import yaml

from hack import objects
from hack.control_plane import ControlPlane, KubectlError
from sharder.core.api.lease import format_time
from sharder.core.api.meta import Json
from sharder.core.names import RingName, drain_label, owner_label
from sharder.kube.client import Client, connect
from tests.support.documents import ROOT, Block, blocks

EXAMPLES = sorted((ROOT / "examples").glob("*/deploy/*.yaml"))
RING = RingName("my-ring")
OBJECT = "/api/v1/namespaces/my-controller/secrets/my-secret"

Manifest = dict[str, Json]


def manifests_in(text: str) -> list[Manifest]:
    """Return what is for the API server in a text of YAML."""
    return [document for document in yaml.safe_load_all(text) if "apiVersion" in document]


def documented() -> Iterator[tuple[str, list[Manifest]]]:
    """Yield every block and every file with manifests, each under its name."""
    for block in blocks("yaml"):
        if manifests := manifests_in(block.text):
            yield str(block), manifests
    for file in EXAMPLES:
        yield str(file.relative_to(ROOT)), manifests_in(file.read_text())


DOCUMENTED = dict(documented())


@pytest.fixture(scope="module")
def prepared(control_plane: ControlPlane) -> ControlPlane:
    """A control plane with all CRDs, and all namespaces that the documents name."""
    for file in (each for each in EXAMPLES if each.name == "crd.yaml"):
        control_plane.apply(file)
    control_plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
    found = [m for manifests in DOCUMENTED.values() for m in manifests]
    namespaces = [m for m in found if m["kind"] == "Namespace"]
    named = {"my-controller", *re.findall('"namespace": "([a-z-]+)"', json.dumps(found))}
    control_plane.apply([*map(objects.namespace, named), *namespaces])
    return control_plane


@pytest.mark.parametrize("place", DOCUMENTED)
def test_the_api_server_takes_the_manifests(prepared: ControlPlane, place: str) -> None:
    manifests = DOCUMENTED[place]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})

    taken = prepared.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict",
        "-o", "name", "-f", "-", stdin=text,
    )  # fmt: skip

    assert len(taken.splitlines()) == len(manifests)


def templates() -> Iterator[tuple[Path, str, Manifest]]:
    """Yield the pods of the examples: file, namespace and spec."""
    for file in EXAMPLES:
        for manifest in yaml.safe_load_all(file.read_text()):
            if manifest["kind"] == "Deployment":
                namespace: str = manifest["metadata"]["namespace"]
                spec: Manifest = manifest["spec"]["template"]["spec"]
                yield file, namespace, spec


def pod(namespace: str, spec: Manifest) -> str:
    """Return a pod as the controller of a Deployment would create it."""
    metadata: Json = {"name": "pod", "namespace": namespace}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@pytest.mark.parametrize(
    ("file", "namespace", "spec"), [pytest.param(*each, id=each[1]) for each in templates()]
)
def test_the_pods_of_an_example_satisfy_what_their_namespace_enforces(
    prepared: ControlPlane, file: Path, namespace: str, spec: Manifest
) -> None:
    prepared.apply(file.with_name("rbac.yaml"))
    create = ("create", "--dry-run=server", "-o", "name", "-f", "-")

    created = prepared.kubectl(*create, stdin=pod(namespace, spec))

    assert created.strip() == "pod/pod"
    with pytest.raises(KubectlError, match="violates PodSecurity"):
        prepared.kubectl(*create, stdin=pod(namespace, {**spec, "hostNetwork": True}))


@dataclass
class Shard:
    """Sends the documented requests as a shard would, one after the other."""

    client: Client
    answers: dict[str, Mapping[str, Json]] = field(default_factory=dict)
    """The last answer about each object or collection, by path."""

    async def send(self, text: str) -> bytes:
        """Send a block: method and path, headers, an empty line, and a body if there is one."""
        head, _, body = text.partition("\n\n")
        first, *headers = head.strip().splitlines()
        method, target = first.split(" ", 1)
        address = urlsplit(self._fill(target, urlsplit(target).path))
        content_type = headers[0].removeprefix("Content-Type: ") if headers else "application/json"
        content: Json = json.loads(self._fill(body, address.path)) if body else None
        answer = await self.client.request(
            method,
            address.path,
            query=dict(parse_qsl(address.query)),
            body=content,
            content_type=content_type,
        )
        if "watch=true" not in target:
            self.note(address.path, answer)
        return answer

    def note(self, path: str, answer: bytes) -> None:
        """Remember an answer, also under the path of an object that was created."""
        document = json.loads(answer)
        self.answers[path] = document
        if name := document["metadata"].get("name"):
            self.answers[f"{path.removesuffix(f'/{name}')}/{name}"] = document

    def _fill(self, text: str, path: str) -> str:
        """Put in what the text has names for."""
        version = self._metadata(path).get("resourceVersion", "")
        return (
            text.replace("{now}", format_time(datetime.now(UTC)))
            .replace("{resourceVersion}", str(version))
            .replace("{uid}", str(self._metadata(OBJECT).get("uid", "")))
        )

    def _metadata(self, path: str) -> Mapping[str, Json]:
        metadata = self.answers.get(path, {}).get("metadata")
        return metadata if isinstance(metadata, Mapping) else {}


async def replay(control_plane: ControlPlane, requests: list[Block]) -> list[bytes]:
    """Send all requests on an object that is the shard's and is draining."""
    client = await connect(str(control_plane.admin_kubeconfig))
    try:
        shard = Shard(client)
        labels = {owner_label(RING): "shard-0", drain_label(RING): "true"}
        secret: Json = {"metadata": {"name": "my-secret", "labels": labels}}
        collection = OBJECT.removesuffix("/my-secret")
        shard.note(collection, await client.request("POST", collection, body=secret))
        return [await shard.send(request.text) for request in requests]
    finally:
        await client.close()


async def test_the_documented_requests_make_a_shard(prepared: ControlPlane) -> None:
    requests = blocks("http")

    answers = await replay(prepared, requests)

    created, renewed, listed, watched, child, acknowledged, released = answers
    assert json.loads(created)["spec"]["holderIdentity"] == "shard-0"
    assert json.loads(renewed)["spec"]["renewTime"] > json.loads(created)["spec"]["renewTime"]
    assert [item["metadata"]["name"] for item in json.loads(listed)["items"]] == ["my-secret"]
    assert {json.loads(line)["type"] for line in watched.splitlines()} <= {"BOOKMARK"}
    assert json.loads(child)["metadata"]["labels"] == {owner_label(RING): "shard-0"}
    assert "labels" not in json.loads(acknowledged)["metadata"]
    assert json.loads(released)["spec"].get("holderIdentity", "") == ""
