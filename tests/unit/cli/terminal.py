"""A terminal beside an API server in memory: a transcript is typed again, and compared as a whole.

A transcript is a text of blocks.  A line `$ ...` is a command as a person types it, with what it
printed below: stdout as it is, a line of stderr after `! `, an exit code in brackets, and after
`~ ` what the command changed in the cluster.  A line `@ ...` is what others do before:

    @ secret default/s owner: shard-a, drain: "true", by: parent, drained: 2
    @ lease default/shard-a metadata: {annotations: {...}}
    @ status ring /demo conditions: []
    @ delete lease default/shard-a
    @ forbid list secrets
    @ withdraw widgets

Moments are printed as TIME.  Objects are three and a half hours old, or were drained so many
hours ago, and Leases were renewed for an hour twenty minutes ago.
"""

import asyncio
import json
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml
from aiohttp import web

from sharder.cli.app import run_command
from sharder.core.api.lease import format_time
from sharder.core.api.meta import Json, Resource
from sharder.core.names import (
    RING_LABEL,
    GroupResource,
    ObjectRef,
    RingName,
    drain_label,
    owner_label,
)
from sharder.kube.typed_stores import LEASES, MUTATING, NAMESPACES, RINGS
from sharder.runtime.clock import SystemClock
from sharder.sdk.testing import custom
from sharder.sdk.testing.requests import Call, Client, Refused
from sharder.sdk.testing.resources import BUILT_IN
from sharder.sdk.testing.storage import Storage, Stored
from tests.support.full_server import FullServer

AGE: Final = timedelta(hours=3, minutes=30, seconds=5)
WIDGETS: Final = custom("widgets.example.com", kind="Widget")
_RESOURCES: Final = {
    each.kind.lower(): each for each in (*BUILT_IN.values(), NAMESPACES, LEASES, WIDGETS)
} | {"ring": RINGS, "webhooks": MUTATING}
DEMO: Final = RingName("demo")
_SPEC: Final[Json] = {
    "resources": [
        {"group": "example.com", "resource": "widgets"},
        {"resource": "secrets", "controlledResources": [{"resource": "configmaps"}]},
    ]
}
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_AGES: Final = {r"\b2\dm(\d+s)?": "20m", r"\b3h3\dm": "3h30m", r"\b([12])h[3-9]m": r"\1h3m"}
"""What grows while a slow machine plays a transcript, and as what it is compared."""
_PLACES: Final = ("metadata.labels", "metadata.annotations", "spec")


class Terminal:
    """What is typed, and the cluster that it is typed for."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._forbidden = set[tuple[str, str]]()
        self._storage = Storage()
        self._server = FullServer(
            self._storage, _RESOURCES.values(), now=constantly(SystemClock().now() - AGE)
        )
        self._server.allows = self._is_allowed

    def play(self, transcript: str) -> str:
        """Do and type everything again; return the transcript with what is printed now."""
        self.others_do("namespace /default")
        lines = list[str]()
        for line in transcript.splitlines():
            if line.startswith("@ "):
                self.others_do(line.removeprefix("@ "))
            if line.startswith("#") and lines:
                lines.append("")
            if line.startswith(("@ ", "#")):
                lines.append(line)
            if line.startswith("$ "):
                lines += [line, *self._typed(line)]
        return "\n".join(lines) + "\n"

    def _is_allowed(self, _: Client, verb: str, resource: GroupResource, __: str) -> bool:
        return (verb, str(resource)) not in self._forbidden

    def _typed(self, line: str) -> Iterator[str]:
        before = self._state()
        code = run_command(shlex.split(line)[2:])
        told = self._capsys.readouterr()
        yield from _timeless(told.out).splitlines()
        yield from (f"! {text}" for text in _timeless(told.err).splitlines())
        if code:
            yield f"[{code}]"
        after = self._state()
        for key in sorted(before.keys() | after.keys()):
            was, now = before.get(key), after.get(key)
            if was != now:
                yield f"~ {key}: {was or 'nothing'} -> {now or 'nothing'}"

    def _state(self) -> dict[str, str]:
        """Return what objects say, by place and key."""
        return {
            f"{resource} {ref.namespace}/{ref.name} {place} {key}": json.dumps(value)
            for resource, objects in self._storage.objects.items()
            for ref, stored in objects.items()
            for place in _PLACES
            for key, value in _at(stored, place).items()
        }

    def others_do(self, words: str) -> None:
        """Carry out one line."""
        what, _, rest = words.partition(" ")
        if what == "forbid":
            self._forbidden.add(tuple(rest.split()))  # type: ignore[arg-type]
            return
        if what == "withdraw":
            gone = next(each for each in _RESOURCES.values() if each.id.resource == rest)
            self._server.withdraw(gone.id, gone.version)
            return
        is_bare = what not in {"delete", "status"}
        kind, where, *more = (words if is_bare else rest).split(maxsplit=2)
        resource = _RESOURCES[kind]
        namespace, _, name = where.partition("/")
        ref, said = ObjectRef(namespace, name), yaml.safe_load(f"{{{''.join(more)}}}")
        is_there = ref in self._storage.of(resource.id)
        body = _body(
            resource, name, {"status": said} if what == "status" else said, is_there=is_there
        )
        path = _path(resource, namespace) + (f"/{name}" if is_there else "")
        if what == "delete":
            call = Call(method="DELETE", path=path)
        elif is_there:
            kind = "application/merge-patch+json"
            path += "/status" if what == "status" else ""
            call = Call(method="PATCH", path=path, body=body, content_type=kind)
        else:
            call = Call(method="POST", path=path, body=body)
        asyncio.run(self._server.answer(call))

    @contextmanager
    def serving(self, kubeconfig: Path) -> Iterator[None]:
        """Serve the cluster at the address in the kubeconfig."""
        loop, started = asyncio.new_event_loop(), threading.Event()
        ended, port = asyncio.Event(), list[int]()

        async def serve() -> None:
            runner = web.ServerRunner(web.Server(self._answer))
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            port.append(runner.addresses[0][1])
            started.set()
            await ended.wait()
            await runner.cleanup()

        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
        thread.start()
        started.wait()
        kubeconfig.write_text(_KUBECONFIG.format(port=port[0]))
        try:
            yield
        finally:
            loop.call_soon_threadsafe(ended.set)
            thread.join()
            loop.close()

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        body = await request.read()
        call = Call(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            body=msgspec.json.decode(body) if body else None,
            content_type=request.headers.get("Content-Type", ""),
            accept=request.headers.get("Accept", ""),
        )
        try:
            code, answer = await self._server.answer(call)
        except Refused as error:
            code, answer = error.code, error.status
        return web.Response(status=code, body=answer, content_type="application/json")


def constantly(moment: datetime) -> Callable[[], datetime]:
    return lambda: moment


def _timeless(text: str) -> str:
    for age, told in _AGES.items():
        text = re.sub(age, told, text)
    return _MOMENT.sub("TIME", text)


def _at(stored: Stored, place: str) -> dict[str, Json]:
    found: Json = stored.tree
    for step in place.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _path(resource: Resource, namespace: str) -> str:
    of = resource.id
    root = f"/apis/{of.group}/{resource.version}" if of.group else f"/api/{resource.version}"
    return f"{root}/namespaces/{namespace}/{of.resource}" if namespace else f"{root}/{of.resource}"


def _body(resource: Resource, name: str, said: dict[str, Json], *, is_there: bool) -> Json:
    metadata: dict[str, Json] = {"name": name, **_metadata(said)}
    if is_there:
        return _merged({"metadata": metadata}, said)
    version = f"{resource.id.group}/{resource.version}".lstrip("/")
    body: dict[str, Json] = {"apiVersion": version, "kind": resource.kind, "metadata": metadata}
    if resource == LEASES:
        metadata["labels"] = {RING_LABEL: DEMO}
        renewed = format_time(SystemClock().now() - timedelta(minutes=20, seconds=5))
        times: dict[str, Json] = {"acquireTime": renewed, "renewTime": renewed}
        body["spec"] = {"holderIdentity": name, "leaseDurationSeconds": 3600, **times}
    if resource == RINGS:
        body["spec"] = deepcopy(_SPEC)
    return _merged(body, said)


def _metadata(said: dict[str, Json]) -> dict[str, Json]:
    """Take the short words out of what is said, and return the metadata that they stand for."""
    labels = {
        key(DEMO): said.pop(word)
        for word, key in (("owner", owner_label), ("drain", drain_label))
        if word in said
    }
    metadata: dict[str, Json] = {"labels": labels} if labels else {}
    if "drained" in said:
        since = SystemClock().now() - timedelta(hours=float(str(said.pop("drained"))), minutes=3)
        fields: Json = {"f:metadata": {"f:labels": {f"f:{drain_label(DEMO)}": {}}}}
        note: Json = {"manager": "sharder", "time": format_time(since), "fieldsV1": fields}
        metadata["managedFields"] = [note]
    if "by" in said:
        parent: dict[str, Json] = {"apiVersion": "v1", "kind": "Secret", "name": said.pop("by")}
        metadata["ownerReferences"] = [{**parent, "uid": "u", "controller": True}]
    return metadata


def _merged(body: dict[str, Json], said: dict[str, Json]) -> dict[str, Json]:
    for key, value in said.items():
        there = body.get(key)
        both = isinstance(there, dict) and isinstance(value, dict)
        body[key] = _merged(there, value) if both else value  # type: ignore[arg-type]
    return body


_KUBECONFIG: Final = """
apiVersion: v1
kind: Config
current-context: memory
contexts: [{{name: memory, context: {{cluster: memory, user: admin}}}}]
clusters: [{{name: memory, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: admin, user: {{}}}}]
"""
