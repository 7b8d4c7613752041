"""What users and admins do in a random play, as tables of what they do how often."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from random import Random
from typing import Any, Final, TypeAlias

import msgspec

from sharder.core.api.meta import Json, ObjectMeta, PartialObject
from sharder.core.errors import ApiError, Conflict, NotFound
from sharder.core.names import CORDONED_ANNOTATION, EVACUATE_ANNOTATION, ObjectRef
from sharder.kube.client import MERGE_PATCH
from sharder.kube.typed_stores import LEASES
from sharder.runtime.task_pool import finishing
from sharder.sdk.testing.requests import Client
from tests.history.traces import Happening, Request
from tests.stage.actors import POD_NAME, RING, SHARD_ACCOUNT, TOKEN, Actor
from tests.stage.faults import SHARDS
from tests.stage.history import STAMP
from tests.stage.rest import ATTACHED
from tests.stage.stage import LEASES_PATH, RINGS_PATH, WEBSITES, Stage, held_lease
from tests.stage.story import DRAIN, LEADING, OWNER, PIN, SITES

PAGES: Final = "/api/v1/namespaces/default/configmaps"
NOWHERE: Final = "nowhere"
"""No shard has this name."""
USUAL: Final = {"create": 6, "replace": 8, "change": 12, "delete": 3}
UNUSUAL: Final = {
    "pin": 5,
    "unpin": 3,
    "strip": 4,
    "claim": 6,
    "ask": 4,
    "lonely": 2,
    "attach": 6,
    "cordon": 4,
    "evacuate": 4,
    "resize": 4,
    "invalid": 3,
    "widen": 4,
    "pause": 4,
    "crowd": 2,
}
"""Done in some plays only."""
CROWD: Final = 10
CAPACITIES: Final = (None, 2, 3, 4, 6, 9)
LEASES_TOO: Final[Json] = {"group": LEASES.id.group, "resource": LEASES.id.resource}
SECRETS_TOO: Final[Json] = {"group": "", "resource": "secrets"}
REQUEST_SECONDS: Final = 40.0
"""How long a user waits: a webhook that does not answer takes 5 s, for each try of the server."""
REFUSED_EACH: Final = 8
"""Of so many objects that users create, a policy refuses one after admission."""
DEEP: Final = b"[" * 9000 + b"]" * 9000
REVIEW: Final = (
    b'{"request":{"uid":"u","operation":"CREATE","resource":{"group":"example.com",'
    b'"version":"v1","resource":"websites"},"object":{"spec":%s,"apiVersion":"example.com/v1",'
    b'"kind":"Website","metadata":{"name":"%s","namespace":"default"}}}}'
)
Action: TypeAlias = Callable[[], Awaitable[None]]


class Users:
    """Users and admins, and the objects that they know."""

    def __init__(
        self, stage: Stage, rng: Random, *, objects: int, spaces: int, unusual: Collection[str]
    ) -> None:
        self.stage = stage
        self.rng = rng
        self.names = dict[ObjectRef, float]()
        """The objects, and when they were created."""
        self.odd = list[str]()
        """What must not be, though it was not refused."""
        self._objects = objects
        self._spaces = ("default", "other")[:spaces]
        self._weights = USUAL | {each: UNUSUAL[each] for each in UNUSUAL if each in unusual}
        self._numbers = 0
        pod = Client(username=SHARD_ACCOUNT, extra={POD_NAME: (SHARDS[1],)})
        robot = Client(username="system:serviceaccount:other:robot")
        self._strangers = [Actor(stage, "pod", pod), Actor(stage, "robot", robot), stage.user]
        """Whoever claims an object that is not his."""

    async def act(self, rate: float) -> None:
        """Do so many things per second, for ever."""
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self.rng.expovariate(rate))
                what = self.rng.choices(list(self._weights), list(self._weights.values()))[0]
                if what == "delete" and len(self.names) < self._objects:
                    what = "create"
                elif what == "create" and len(self.names) > 2 * self._objects:
                    what = "delete"
                group.create_task(self.do(what))

    async def do(self, what: str) -> None:
        """Do one thing; note if it is refused though nothing is wrong with it."""
        begin, action = asyncio.get_running_loop().time(), getattr(self, what)
        try:
            await action()
        except (NotFound, Conflict):
            return
        except ApiError as error:
            end = asyncio.get_running_loop().time()
            told = f"{what}: {error!r:.200}"
            self.stage.history.refused.append(Request(begin=begin, end=end, what=told))

    async def create(self) -> None:
        """Create an object, which a policy refuses at times."""
        now, labels = asyncio.get_running_loop().time(), dict[str, Json]()
        if "pin" in self._weights and self.rng.random() < 0.3:
            labels[PIN] = self._shard()
        if "claim" in self._weights and self.rng.random() < 0.3:
            labels[OWNER] = NOWHERE
        body = self._written(labels)
        ref = ObjectRef(self.rng.choice(self._spaces), f"site-{self._numbers}")
        body["metadata"]["name"] = ref.name
        is_refused = self._numbers % REFUSED_EACH == 0
        body["spec"]["value"] *= not is_refused
        try:
            await self._send("POST", SITES.format(ref.namespace), body)
        except ApiError:
            if not is_refused:
                raise
        else:
            self.names[ref] = now

    async def replace(self) -> None:
        """Replace an object that was read, which has no labels then but those of its author."""
        path, body = self._any(), self._written({})
        content = await self.stage.user.client.request("GET", path)
        meta = msgspec.json.decode(content, type=PartialObject).metadata
        body["metadata"] |= {"name": meta.name, "resourceVersion": meta.resource_version}
        await self._send("PUT", path, body)

    async def change(self) -> None:
        """Change an object's specification."""
        await self._send("PATCH", self._any(), self._written({}))

    async def delete(self) -> None:
        """Delete an object."""
        path = self._any()
        self.names = {ref: at for ref, at in self.names.items() if _path(ref) != path}
        await self._send("DELETE", path)

    async def pin(self) -> None:
        """Pin an object, perhaps to a shard that is not there."""
        await self._send("PATCH", self._any(), self._written({PIN: self._shard()}))

    async def unpin(self) -> None:
        """Take the pin of an object away."""
        await self._send("PATCH", self._any(), self._written({PIN: None}))

    async def strip(self) -> None:
        """Remove the label of an object while no webhook answers, and edit it a moment later."""
        path = self._any()
        with self.stage.without_webhook():
            await self._send("PATCH", path, self._written({OWNER: None}))
        await asyncio.sleep(self.rng.uniform(0.1, 2))
        await self._send("PATCH", path, self._written({}))

    async def claim(self) -> None:
        """Ask, without effect, what the webhook makes of a foreign object that is taken."""
        labels: dict[str, Json] = {OWNER: self.rng.choice([None, *SHARDS])}
        if self.rng.random() < 0.5:
            labels = {OWNER: None, DRAIN: None}
        client = self.rng.choice(self._strangers).client
        stored = self.stage.storage.of(WEBSITES.id).items()
        path = next(
            (_path(ref) for ref, each in stored if each.meta.has_label(DRAIN)), self._any()
        )
        body, query = {"metadata": self._written(labels)["metadata"]}, {"dryRun": "All"}
        with suppress(ApiError):  # the fence may refuse it
            await client.request("PATCH", path, query=query, body=body, content_type=MERGE_PATCH)

    async def lonely(self) -> None:
        """Create and change a child that has no parent."""
        self._numbers += 1
        name = f"lonely-{self._numbers}"
        await self._send("POST", PAGES, {"metadata": {"name": name}})
        await self._send("PATCH", f"{PAGES}/{name}", {"data": {"a": "b"}})

    async def attach(self) -> None:
        """Create a child as another tool does, while no webhook answers."""
        content = await self.stage.user.client.request("GET", self._any())
        meta = msgspec.json.decode(content, type=PartialObject).metadata
        self._numbers += 1
        name = f"{ATTACHED}{self._numbers}"
        owner: Json = {
            "apiVersion": "example.com/v1", "kind": "Website", "name": meta.name,
            "uid": meta.uid, "controller": True,
        }  # fmt: skip
        path = f"/api/v1/namespaces/{meta.namespace}/configmaps"
        with self.stage.without_webhook():
            await self._send(
                "POST", path, {"metadata": {"name": name, "ownerReferences": [owner]}}
            )

    async def cordon(self) -> None:
        """Cordon a shard, or undo that."""
        await self._describe(CORDONED_ANNOTATION)

    async def evacuate(self) -> None:
        """Evacuate a shard, or undo that."""
        await self._describe(EVACUATE_ANNOTATION)

    async def resize(self) -> None:
        """Let shards have fewer objects, or more."""
        placement: Json = {"perShardCapacity": self.rng.choice(CAPACITIES)}
        await self._send("PATCH", f"{RINGS_PATH}/{RING}", {"spec": {"placement": placement}})

    async def pause(self) -> None:
        """Stop all movement for a while."""
        path = f"{RINGS_PATH}/{RING}"
        try:
            await self._send("PATCH", path, {"spec": {"movement": {"paused": True}}})
            await asyncio.sleep(self.rng.uniform(3, 12))
        finally:
            await self.insist("PATCH", path, {"spec": {"movement": {"paused": None}}})

    async def widen(self) -> None:
        """Let the ring shard what must not be sharded, or cannot be read, for a while."""
        path, other = f"{RINGS_PATH}/{RING}", self.rng.choice([LEASES_TOO, SECRETS_TOO])
        try:
            await self._send("PATCH", path, {"spec": {"resources": [other, LEADING]}})
            await asyncio.sleep(self.rng.uniform(5, 25))
        finally:
            await self.insist("PATCH", path, {"spec": {"resources": [LEADING]}})

    async def crowd(self) -> None:
        """Create Leases of shards, one after the other, which fall silent later."""
        for _ in range(CROWD):
            self._numbers += 1
            name = f"ghost-of-{self._numbers}"
            self.stage.history.happened(name, Happening.FORGED)
            await self._send("POST", LEASES_PATH.format("default"), held_lease(name, holder=name))
            await asyncio.sleep(0.7)

    async def invalid(self) -> None:
        """Create the Lease of a shard, spoil it while the shard has objects, and delete it."""
        self._numbers += 1
        name, leases = f"invalid-{self._numbers}", LEASES_PATH.format("default")
        self.stage.history.happened(name, Happening.FORGED)
        await self._send("POST", leases, held_lease(name, holder=name))
        try:
            await asyncio.sleep(self.rng.uniform(1, 5))
            spoilt: Json = {"spec": {"leaseDurationSeconds": 10**7}}
            await self._send("PATCH", f"{leases}/{name}", spoilt)
            await asyncio.sleep(self.rng.uniform(5, 15))
        finally:
            await self.insist("DELETE", f"{leases}/{name}")

    async def ask(self) -> None:
        """Send reviews that lead to no object, as the API server or as somebody who guesses.

        To the API server it makes no difference that an object is deep; a guess takes no room.
        """
        self._numbers += 1
        ready = [each for each in self.stage.replicas.values() if each.is_ready]
        token, name = self.rng.choice([TOKEN, "guessed"]), f"asked-{self._numbers}"
        if not ready:
            return
        replica, answers = self.rng.choice(ready), list[bool]()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(5):
                for spec in (b"{}", DEEP):
                    path = f"/{token}/webhooks/sharder/controllerring/{RING}"
                    answer = await replica.review(path, REVIEW % (spec, name.encode()))
                    answers.append(b'"patch"' in answer)
        if token == TOKEN and answers == [True, False]:
            self.odd.append(f"{name} gets no shard because it is deep")
        ring, meta = replica.snapshot, ObjectMeta(name=name, namespace="default")
        asked = PartialObject(api_version="example.com/v1", kind="Website", metadata=meta)
        tally = None if ring is None or token == TOKEN else ring.tally
        if ring and tally and tally.shard_of(ring.identity_of(asked)) is not None:
            self.odd.append(f"{name} takes room, by a guess")

    async def insist(self, method: str, path: str, body: Json = None) -> None:
        """Send a request until it has success, or nothing is there; also at the end of a play."""

        async def send() -> None:
            while True:
                try:
                    with suppress(NotFound):
                        await self.stage.write(method, path, body)
                except ApiError:
                    await asyncio.sleep(0.5)
                else:
                    return

        await finishing(send, 30)

    async def _describe(self, annotation: str) -> None:
        value: Json = self.rng.choice(["true", None])
        path = f"{LEASES_PATH.format('default')}/{self.rng.choice(SHARDS)}"
        await self._send("PATCH", path, {"metadata": {"annotations": {annotation: value}}})

    async def _send(self, method: str, path: str, body: Json = None) -> None:
        await self.stage.write(method, path, body, seconds=REQUEST_SECONDS)

    def _written(self, labels: dict[str, Json]) -> Any:
        """Return what a user writes, with the mark of this write."""
        self._numbers += 1
        metadata: Json = {"annotations": {STAMP: str(self._numbers)}, "labels": labels}
        return {"metadata": metadata, "spec": {"value": self._numbers}}

    def _any(self) -> str:
        """Return the path of an object that is not quite new."""
        now = asyncio.get_running_loop().time()
        old = sorted(ref for ref, at in self.names.items() if at < now - 0.5)
        return _path(self.rng.choice(old) if old else ObjectRef("default", NOWHERE))

    def _shard(self) -> str:
        return self.rng.choice([*SHARDS, *SHARDS, NOWHERE])


def _path(ref: ObjectRef) -> str:
    return f"{SITES.format(ref.namespace)}/{ref.name}"
