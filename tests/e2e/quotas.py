"""The example namespace-quota with three replicas, played once: killed, replaced and drained.

People create Namespaces and grants meanwhile, change sizes and end grants, without a pause.
"""

import asyncio
import random
import runpy
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, Self

import msgspec
import yaml

from hack.control_plane import ControlPlane
from hack.demo import wait_until_ready
from hack.playground import ROOT, Playground
from sharder.core.api.meta import Resource
from sharder.core.api.ring import Condition
from sharder.core.names import (
    EVACUATE_ANNOTATION,
    GroupResource,
    RingName,
    drain_label,
    owner_label,
)
from sharder.kube.client import Client, connect
from sharder.kube.typed_stores import NAMESPACES
from sharder.sdk.reads.objects import OwnObject
from tests.e2e.story import CHECKSUM, install_chart
from tests.support.eventually import eventually
from tests.support.users import CONFIGMAPS, User, path_of

EXAMPLE: Final = ROOT / "examples/namespace-quota"
RING: Final = "namespace-quota"
"""Also the name of the shards' namespace and ServiceAccount."""
ACCOUNT: Final = f"system:serviceaccount:{RING}:{RING}"
OWNER, DRAIN = owner_label(RingName(RING)), drain_label(RingName(RING))
GRANTS: Final = Resource(
    id=GroupResource("quota.example.com", "quotagrants"),
    version="v1",
    kind="QuotaGrant",
    namespaced=True,
)
CONTROLLER = runpy.run_path(str(EXAMPLE / "controller.py"))
SIZE: Final[str] = CONTROLLER["SIZE"]
QUOTAS: Final[Mapping[str, Mapping[str, int]]] = CONTROLLER["QUOTAS"]
FINALIZER: Final = "quota.example.com/grant"
SHARDS: Final = tuple(f"quota-{number}" for number in range(6))
"""The first three begin, and each of the others takes the place of one."""
FIRST_TEAMS: Final = 40
WITHIN: Final = 120.0
"""Seconds that anything may take on a busy machine."""


class Status(msgspec.Struct, frozen=True):
    """The status of a Namespace or a grant."""

    conditions: tuple[Condition, ...] = ()


class Thing(OwnObject, frozen=True, kw_only=True, rename="camel"):
    """A Namespace, a grant or a ConfigMap."""

    data: dict[str, str] = msgspec.field(default_factory=dict)
    status: Status = Status()

    @property
    def key(self) -> str:
        """Namespace and name."""
        return str(self.metadata.ref)

    @property
    def owner(self) -> str:
        """The shard that its label names, empty if none."""
        return self.metadata.label(OWNER)


class _Things(msgspec.Struct, frozen=True):
    items: tuple[Thing, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One look at everything."""

    mains: Mapping[str, Thing]
    """Namespaces and grants by uid."""
    quotas: tuple[Thing, ...]
    """The ConfigMaps."""

    def shares(self) -> Counter[str]:
        """Return how many Namespaces and grants each shard has, "" for none."""
        return Counter(each.owner for each in self.mains.values())

    def homeless(self, live: set[str]) -> list[str]:
        """Return the Namespaces and grants that none of these shards may work on."""
        return [
            f"{each.key}: {each.owner or 'no owner'}"
            for each in self.mains.values()
            if each.owner not in live or each.metadata.has_label(DRAIN)
        ]

    def strays(self) -> list[str]:
        """Return the ConfigMaps that are not with what controls them."""
        found = list[str]()
        for quota in self.quotas:
            controller = quota.metadata.controller
            parent = self.mains.get(controller.uid) if controller else None
            if parent is None or parent.owner != quota.owner:
                found.append(f"{quota.key}: {quota.owner}")
        return found

    @classmethod
    async def read(cls, client: Client) -> Self:
        """Read everything that the ring selects."""

        async def read(of: Resource, labels: str) -> tuple[Thing, ...]:
            answer = await client.request("GET", path_of_all(of), query={"labelSelector": labels})
            return msgspec.json.decode(answer, type=_Things).items

        mains = (*await read(NAMESPACES, SIZE), *await read(GRANTS, ""))
        return cls(
            mains={each.metadata.uid: each for each in mains},
            quotas=await read(CONFIGMAPS, OWNER),
        )


@dataclass(slots=True)
class People:
    """What people want, and their requests."""

    user: User
    rng: random.Random
    sizes: dict[str, str] = field(default_factory=dict)
    """Of each Namespace."""
    grants: dict[str, int] = field(default_factory=dict)
    """The pods that each grant adds, by namespace and name."""
    ended: set[str] = field(default_factory=set)
    """Grants that were deleted."""
    numbers: Iterator[int] = field(default_factory=count)

    async def begin_team(self) -> None:
        """Create a Namespace with a grant."""
        name = f"team-{next(self.numbers):03}"
        await self.user.create(NAMESPACES, name, labels={SIZE: "small"})
        self.sizes[name] = "small"
        await self.grant(name)

    async def grant(self, namespace: str) -> None:
        """Create a grant."""
        name, pods = f"grant-{next(self.numbers):03}", self.rng.randrange(1, 50)
        content = {"spec": {"limits": {"pods": pods}}}
        await self.user.create(GRANTS, name, namespace=namespace, content=content)
        self.grants[f"{namespace}/{name}"] = pods

    async def resize(self, namespace: str) -> None:
        """Give a Namespace another size."""
        size = self.rng.choice(sorted(QUOTAS))
        await self.user.patch(NAMESPACES, namespace, {"metadata": {"labels": {SIZE: size}}})
        self.sizes[namespace] = size

    async def end(self, grant: str) -> None:
        """Delete a grant."""
        del self.grants[grant]
        self.ended.add(grant)
        namespace, _, name = grant.partition("/")
        await self.user.delete(GRANTS, name, namespace=namespace)

    async def work(self, stop: asyncio.Event) -> None:
        """Do one thing after the other until `stop` is set."""
        while not stop.is_set():
            match self.rng.randrange(4):
                case 0:
                    await self.begin_team()
                case 1:
                    await self.grant(self.rng.choice(list(self.sizes)))
                case 2:
                    await self.resize(self.rng.choice(list(self.sizes)))
                case _:
                    await self.end(self.rng.choice(list(self.grants)))
            await asyncio.sleep(0.1)

    def wanted(self) -> dict[str, Mapping[str, str]]:
        """Return the data of all ConfigMaps that there should be, by namespace and name."""
        quotas = {
            f"{namespace}/quota": {key: str(limit) for key, limit in QUOTAS[size].items()}
            for namespace, size in self.sizes.items()
        }
        grants = {
            grant.replace("/", "/quota-"): {"pods": str(pods)}
            for grant, pods in self.grants.items()
        }
        return {**quotas, **grants}


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What happened."""

    begun: Cluster
    """When all was at rest for the first time."""
    ended: Cluster
    """When all was at rest at the end."""
    people: People
    lost: frozenset[str]
    """Grants that were deleted while the shard that had them was dead."""
    exit_codes: tuple[int, ...]
    """Of the shards that were replaced."""
    evacuated: tuple[bool, ...]
    """Whether each of them had released everything before."""


class Stage:
    """The processes, and the hands of everybody."""

    def __init__(self, playground: Playground, client: Client) -> None:
        self.playground = playground
        self.client = client
        self.people = People(User(client), random.Random(18))
        self.live = set[str]()

    async def start(self, *names: str) -> None:
        """Start shards, each with the token of a pod of its name."""
        for name in names:
            plane = self.playground.plane
            token = await asyncio.to_thread(plane.token_kubeconfig, RING, RING, pod=name)
            self.playground.start_shard(
                name,
                (sys.executable, str(EXAMPLE / "controller.py")),
                KUBECONFIG=str(token),
                SHARD_NAMESPACE=RING,
                # The supervisor kills what has not ended 15 s after SIGTERM.
                SHARD_DRAIN_ON_STOP="10s",
            )
        self.live |= set(names)

    async def placed(self, *, but: str = "") -> Cluster:
        """Wait until all objects are on live shards, and each has some; `but` has none."""

        async def probe() -> Cluster:
            now = await Cluster.read(self.client)
            homeless = now.homeless(self.live - {but})
            assert not homeless, homeless[:5]
            assert set(now.shares()) == self.live - {but}, now.shares()
            return now

        return await eventually(probe, within=WITHIN)

    async def at_rest(self) -> Cluster:
        """Wait until everything is as people want it, and beside what controls it."""

        async def probe() -> Cluster:
            now = await self.placed()
            grants = {each.key for each in now.mains.values() if each.metadata.namespace}
            data = {each.key: each.data for each in now.quotas}
            wanted = self.people.wanted()
            differing = [key for key in data | wanted if data.get(key) != wanted.get(key)]
            assert not differing, differing[:5]
            assert grants == self.people.grants.keys(), grants ^ self.people.grants.keys()
            assert not now.strays(), now.strays()[:5]
            return now

        return await eventually(probe, within=WITHIN)

    async def kill(self, name: str) -> set[str]:
        """Kill a shard, and delete the grants that it had protected; return those."""
        now = await Cluster.read(self.client)
        self.playground.kill(name)
        self.live.discard(name)
        # A grant that the shard has not met yet has no finalizer, and is gone at once.
        own = {
            each.key
            for each in now.mains.values()
            if each.owner == name and each.metadata.has_finalizer(FINALIZER)
        }
        ended = own & self.people.grants.keys()
        for grant in ended:
            if grant in self.people.grants:
                await self.people.end(grant)
        return ended

    async def replace(self, old: str, new: str) -> int:
        """Start a shard, and then end another one by SIGTERM; return its exit code."""
        await self.start(new)
        await self.placed()
        self.live.discard(old)
        return await asyncio.to_thread(self.playground.stop, old)

    async def evacuate(self, name: str) -> None:
        """Drain a shard object by object while it works."""
        mark = f"{EVACUATE_ANNOTATION}=true"
        kubectl, lease = self.playground.plane.kubectl, ("lease", name, "-n", RING)
        await asyncio.to_thread(kubectl, "annotate", *lease, mark)
        await self.placed(but=name)
        await asyncio.to_thread(kubectl, "annotate", *lease, f"{EVACUATE_ANNOTATION}-")

    @asynccontextmanager
    async def people_at_work(self) -> AsyncIterator[None]:
        """Let people work as long as the block lasts."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.people.work(stop), name="people")
            yield
            stop.set()


async def play(plane: ControlPlane) -> Story:
    """Play the story on a control plane of its own."""
    playground = Playground(plane)
    (ring,) = yaml.safe_load((EXAMPLE / "sharder-values.yaml").read_text())["rings"]
    install_chart(plane, CHECKSUM, ring)
    playground.install_example()
    plane.apply(EXAMPLE / "deploy/crd.yaml")
    plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
    for manifest in ("namespace.yaml", "rbac.yaml", "ring.yaml"):
        plane.apply(EXAMPLE / "deploy" / manifest)
    playground.start_sharder(gracefulShutDown="0s")
    await wait_until_ready(playground)
    client = await connect(str(plane.admin_kubeconfig))
    try:
        return await _play(Stage(playground, client))
    finally:
        await client.close()


async def _play(stage: Stage) -> Story:
    await stage.start(*SHARDS[:3])
    for _ in range(FIRST_TEAMS):
        await stage.people.begin_team()
    begun = await stage.at_rest()
    async with stage.people_at_work():
        lost = await stage.kill("quota-0")
        await stage.start("quota-3")
        await stage.placed()
        codes = [await stage.replace("quota-1", "quota-4")]
        codes.append(await stage.replace("quota-2", "quota-5"))
        await stage.placed()
        await stage.evacuate("quota-3")
    ended = await stage.at_rest()
    log = stage.playground.log
    return Story(
        begun=begun,
        ended=ended,
        people=stage.people,
        lost=frozenset(lost),
        exit_codes=tuple(codes),
        evacuated=tuple('"evacuated"' in log(name) for name in ("quota-1", "quota-2")),
    )


def path_of_all(of: Resource) -> str:
    """Return the path of a resource in all namespaces."""
    return path_of(replace(of, namespaced=False))
