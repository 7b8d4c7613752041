"""What a pod gives to its containers: variables, files, and a user."""

import base64
import re
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec

from hack.control_plane import SERVICE_ADDRESS, ControlPlane
from sharder.kube.client import Client
from tests.long.cluster.sandbox import Mount, Sandbox, image_of

Tree: TypeAlias = dict[str, Any]
"""A part of a pod, as the API server has it."""


class Contents:
    """The contents of a pod; they stay as they are at its start."""

    def __init__(self, tree: Tree, sandbox: Sandbox, plane: ControlPlane, client: Client) -> None:
        self._tree, self._sandbox, self._client = tree, sandbox, client
        self._namespace = f"/api/v1/namespaces/{tree['metadata']['namespace']}"
        self._directory = plane.directory / "pods" / tree["metadata"]["uid"]
        self._variables = {
            "KUBERNETES_SERVICE_HOST": SERVICE_ADDRESS,
            "KUBERNETES_SERVICE_PORT": str(urlsplit(plane.url).port),
        }

    async def fill(self) -> None:
        """Write the volumes; an error says that something is not there yet."""
        for volume in self._tree["spec"].get("volumes", ()):
            directory = self._directory / "volumes" / volume["name"]
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o777 if "emptyDir" in volume else 0o755)
            for name, content in (await self._files(volume)).items():
                (directory / name).write_bytes(content)

    def start(self, container: Tree, number: int) -> None:
        """Start a container for the time with this number."""
        name, spec = container["name"], self._tree["spec"]
        context = {**spec.get("securityContext", {}), **container.get("securityContext", {})}
        image = image_of(container["image"])
        assert image is not None, container["image"]
        user = context.get("runAsUser", image.user)
        assert user or not context.get("runAsNonRoot"), f"{name} would run as root"
        program = container.get("command", [str(image.entrypoint)])
        volumes = self._directory / "volumes"
        self._sandbox.run(
            name,
            [*program, *container.get("args", ())],
            self._directory / f"{name}-{number}",
            mounts=[
                *(Mount(each, str(each), is_read_only=True) for each in image.folders),
                *(
                    Mount(volumes / each["name"], each["mountPath"], each.get("readOnly", False))
                    for each in container.get("volumeMounts", ())
                ),
            ],
            is_read_only=context.get("readOnlyRootFilesystem", False),
            user=user,
            environment={
                **image.variables,
                **self._variables,
                **{each["name"]: self._value(each) for each in container.get("env", ())},
            },
        )

    async def _files(self, volume: Tree) -> dict[str, bytes]:
        """Return the files of a volume, or of a source of a projected one."""
        match volume:
            case {"emptyDir": _}:
                return {}
            case {"configMap": source}:
                data = (await self._read("configmaps", source["name"])).get("data", {})
                return _chosen({key: text.encode() for key, text in data.items()}, source)
            case {"secret": source}:
                data = (await self._read("secrets", source["secretName"])).get("data", {})
                return _chosen({key: base64.b64decode(text) for key, text in data.items()}, source)
            case {"serviceAccountToken": source}:
                return {source["path"]: await self._token(source["expirationSeconds"])}
            case {"downwardAPI": {"items": items}}:
                named = {each["path"]: each["fieldRef"]["fieldPath"] for each in items}
                return {path: self._field(field).encode() for path, field in named.items()}
            case {"projected": {"sources": sources}}:
                parts = [await self._files(source) for source in sources]
                return {name: content for part in parts for name, content in part.items()}
            case _:
                raise NotImplementedError(volume)

    async def _read(self, resource: str, name: str) -> Tree:
        path = f"{self._namespace}/{resource}/{name}"
        return msgspec.json.decode(await self._client.request("GET", path), type=Tree)

    async def _token(self, seconds: int) -> bytes:
        """Return a token that is bound to the pod; it lasts longer than any test."""
        metadata = self._tree["metadata"]
        pod = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
        body: Tree = {"spec": {"expirationSeconds": seconds, "boundObjectRef": pod}}
        account = f"serviceaccounts/{self._tree['spec']['serviceAccountName']}"
        answer = await self._client.request(
            "POST", f"{self._namespace}/{account}/token", body=body
        )
        token: str = msgspec.json.decode(answer, type=Tree)["status"]["token"]
        return token.encode()

    def _value(self, variable: Tree) -> str:
        match variable:
            case {"valueFrom": {"fieldRef": {"fieldPath": field}}}:
                return self._field(field)
            case {"valueFrom": other}:
                raise NotImplementedError(other)
            case _:
                return str(variable.get("value", ""))

    def _field(self, path: str) -> str:
        """Return a field of the pod by its path, such as metadata.labels['app']."""
        if path == "status.podIP":
            return self._sandbox.address
        key = re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]", path)
        value = self._tree
        for part in ("metadata", *key.groups()) if key else path.split("."):
            value = value[part]
        return str(value)


def _chosen(data: dict[str, bytes], source: Tree) -> dict[str, bytes]:
    """Return the files of a ConfigMap or Secret under the paths that a volume gives them."""
    items = source.get("items") or [{"key": key, "path": key} for key in data]
    return {each["path"]: data[each["key"]] for each in items}
