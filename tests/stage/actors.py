"""The cast: processes that run the product's own code on the stage."""

import asyncio
import random
from collections.abc import Coroutine
from contextvars import Context, copy_context
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry
from typing_extensions import override

from sharder import __version__
from sharder.cli.serve.replica import Replica
from sharder.config.settings import LeaderElection, Settings
from sharder.core.api.meta import Json, PartialObject
from sharder.core.errors import SharderError
from sharder.core.leases.election import LeaseTiming
from sharder.core.names import RingName
from sharder.core.rebalance.packed import computed
from sharder.core.ring.snapshot import RingSnapshot
from sharder.core.webhook_configuration import Registration, WebhookClientConfig, WebhookConfig
from sharder.metrics.registry import service_metrics
from sharder.runtime.child_process import ChildFailed
from sharder.sdk import Request, Shard
from sharder.sdk import Settings as ShardSettings
from sharder.sdk.testing.requests import Client as User
from sharder.shard.cluster import Cluster
from tests.history.traces import Happening
from tests.stage.loop import PROCESS, Process
from tests.stage.network import Link, NetworkClient, ProcessClock
from tests.stage.replica_judge import ReplicaJudge
from webhook.messages import Answer

if TYPE_CHECKING:
    from tests.stage.stage import Stage

RING: Final = RingName("demo")
SHARDER: Final = "system:serviceaccount:sharding-system:sharder"
SHARD_ACCOUNT: Final = "system:serviceaccount:default:shard"
HOST: Final = "sharders"
TOKEN: Final = "only-the-api-server-knows"  # noqa: S105 - of the stage
"""The part of the webhook's path by which a replica recognizes the API server."""
POD_NAME: Final = "authentication.kubernetes.io/pod-name"
EXCLUDED: Final = frozenset({"kube-system", "sharding-system"})
LEASE: Final = LeaseTiming(lease_duration=5, renew_deadline=3.5, retry_period=1.0)
"""Shorter than usual, so that a play takes less time."""
ELECTION: Final = LeaderElection(
    lease_duration=timedelta(seconds=5),
    renew_deadline=timedelta(seconds=3.5),
    retry_period=timedelta(seconds=1),
)
COUNT_SECONDS: Final = 10.0
"""How long a replica that starts waits for its counts at most."""
STOP_SECONDS: Final = 3.0
"""How long a replica that stops still answers."""


class Actor:
    """One process: it can be killed, paused and resumed as by signals."""

    def __init__(self, stage: "Stage", name: str, user: User, *, server: int = 0) -> None:
        self.stage = stage
        self.name = name
        self.rng = random.Random(f"{stage.seed} {name} {len(stage.actors)}")
        self.process = Process(name)
        self.link = Link(self.rng, lambda: self.has_ended)
        self.clock = ProcessClock()
        self.client = NetworkClient(stage.servers[server], user, self.link)
        self.client.watching = stage.history.watching
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self.process)
        self.task: asyncio.Task[None] | None = None
        self.is_dead = False
        stage.actors.append(self)

    @property
    def has_ended(self) -> bool:
        """Whether the process was started and is gone."""
        return self.is_dead or (self.task is not None and self.task.done())

    @property
    def is_running(self) -> bool:
        """Whether the process has neither ended nor been killed."""
        return self.task is not None and not self.task.done() and not self.is_dead

    async def main(self) -> None:
        """Run the program."""

    def start(self) -> None:
        """Run the program, until it ends or is killed."""
        self.stage.history.happened(self.name, Happening.STARTED)
        self.task = self.stage.loop.create_task(self._run(), name=self.name, context=self.context)

    async def _run(self) -> None:
        try:
            await self.main()
        except* SharderError as failed:
            self.process.ended_with = str(failed.exceptions[0])
        finally:
            if not self.is_dead:
                self.stage.history.happened(self.name, Happening.ENDED)

    def kill(self) -> None:
        """End the process at once (SIGKILL): it does nothing any more, its streams break."""
        self.stage.history.happened(self.name, Happening.KILLED)
        self.stage.history.happened(self.name, Happening.ENDED)
        self.stage.history.killed(self.name)
        self.process.is_stopped = self.is_dead = True
        for watcher in list(self.link.watchers):
            watcher.close()
        self.link.abandon(list(self.link.served))

    async def until_ended(self) -> None:
        """Wait until the process has ended."""
        while not self.has_ended:  # noqa: ASYNC110 - its task can be paused
            await asyncio.sleep(0.01)

    def pause(self) -> None:
        """Stop the process for a while (SIGSTOP); time goes on."""
        self.stage.history.happened(self.name, Happening.PAUSED)
        self.process.is_stopped = True

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        if not self.is_dead:
            self.stage.history.happened(self.name, Happening.RESUMED)
            self.stage.loop.resume(self.process)

    def terminate(self) -> None:
        """Ask it to stop (SIGTERM)."""
        self.stage.history.happened(self.name, Happening.TERMINATED)
        self.stage.loop.call_soon(self.stop, context=self.context)

    def stop(self) -> None:
        """Stop cleanly; called in the process."""


class ReplicaActor(Actor):
    """A replica of the sharder."""

    def __init__(self, stage: "Stage", name: str, *, server: int = 0) -> None:
        super().__init__(stage, name, User(username=SHARDER), server=server)
        self.is_ready = False
        self.leads = False
        self.crashes = False
        """Whether the computation of a rebalance fails."""
        self.judge = ReplicaJudge(self, RING)
        self.client.sees = self.judge.see_request
        stage.storage.observers.append(self.judge.observe)
        self._stop = asyncio.Event()
        self.registry = CollectorRegistry()
        settings = Settings(sharder_user_names=(SHARDER,), leader_election=ELECTION)
        self.replica = Replica(
            settings,
            self.client,
            custom=stage.custom,
            excluded=EXCLUDED,
            metrics=service_metrics(self.registry, version=__version__),
            not_ready=lambda: None,
            compute=self._compute,
            clock=self.clock,
            rng=self.rng,
        )
        self._endpoint = self.replica.endpoint(lambda token: token == TOKEN)

    async def _compute(self, problem: bytes) -> bytes:
        """Compute a rebalance here, because another process knows no virtual time."""
        if self.crashes:
            raise ChildFailed("it ended with -9")
        return computed(problem)

    @override
    async def main(self) -> None:
        """Start, lead or stand by, and stop cleanly when asked."""
        cache = self.replica.cache
        async with asyncio.TaskGroup() as group:
            follow = group.create_task(self.replica.follow())
            until = self.clock.monotonic() + COUNT_SECONDS
            while cache.not_synced() is not None or (
                cache.uncounted() and self.clock.monotonic() < until
            ):
                await self.clock.sleep(0.05)
            campaigning = self.replica.campaign(self._registration, self._lead)
            leading = group.create_task(campaigning)
            self.is_ready = True
            await self._stop.wait()
            leading.cancel()
            await self.clock.sleep(STOP_SECONDS)
            self.is_ready = False
            follow.cancel()

    @override
    def stop(self) -> None:
        """Stop cleanly."""
        self._stop.set()

    async def review(self, path: str, body: bytes) -> bytes:
        """Answer an AdmissionReview, in the process of the replica."""
        if not self.is_running:
            raise ConnectionRefusedError
        answered: asyncio.Future[bytes] = self.stage.loop.create_future()
        replies = set[asyncio.Task[None]]()

        def settle(answer: Answer) -> None:
            self.judge.see_answer(body, answer.body)
            if not answered.done():
                answered.set_result(answer.body)

        async def finish(reply: Coroutine[None, None, Answer]) -> None:
            settle(await reply)

        def work() -> None:
            reply = self._endpoint.route(path).reply(body)
            if isinstance(reply, Answer):
                settle(reply)
            else:
                task = self.stage.loop.create_task(finish(reply), context=self.context)
                replies.add(task)  # the loop has only a weak reference

        self.stage.loop.call_later(self.link.takes(), work, context=self.context)
        return await answered

    @property
    def snapshot(self) -> RingSnapshot | None:
        """The ring as this replica sees it."""
        return self.replica.cache.snapshot(RING)

    def _lead(self, leads: bool) -> None:
        self.leads = leads
        if leads:
            self.judge.begin_term()

    def _registration(self) -> Registration:
        return Registration(
            config=WebhookConfig(client_config=WebhookClientConfig(url=f"https://{HOST}")),
            excluded=EXCLUDED,
            sharders=frozenset({SHARDER}),
            token=TOKEN,
        )


class ShardActor(Actor):
    """A shard of the SDK; its controller makes a ConfigMap for each Website.

    The name of the ConfigMap is random, so that a shard which does not see it creates another.
    """

    def __init__(self, stage: "Stage", name: str, *, server: int = 0) -> None:
        user = User(username=SHARD_ACCOUNT, extra={POD_NAME: (name,)})
        super().__init__(stage, name, user, server=server)
        settings = ShardSettings(
            name=name,
            namespace="default",
            lease=LEASE,
            kubeconfig=f"process {len(stage.actors)}",
        )
        self.shard = Shard(ring=RING, settings=settings)
        self.shard.reconciler(
            "websites.example.com", self._reconcile, owns=["configmaps"], cache=["configmaps"]
        )

    @override
    async def main(self) -> None:
        """Work until it is asked to stop, or has lost its Lease."""
        await self.shard.serve_on(Cluster(self.client), clock=self.clock, rng=self.rng)

    @override
    def stop(self) -> None:
        """Stop cleanly."""
        self.shard.stop()

    async def _reconcile(self, request: Request) -> None:
        if request.metadata.deletion_timestamp is not None:
            return
        with self.stage.history.working(self.name, request.ref):
            known = await request.children("configmaps", PartialObject)
            await self.clock.sleep(self.rng.uniform(0, 0.8))
            new = f"{request.ref.name}-{self.rng.getrandbits(32):08x}"
            body: dict[str, Json] = {
                "kind": "ConfigMap",
                "metadata": {"name": known[0].metadata.name if known else new},
                "data": {"writer": self.name},
            }
            await request.ensure(body, replace=["data"])
