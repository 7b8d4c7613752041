"""The cost of a create through a real API server: without webhook, with `Null`, with ours."""

import asyncio
import base64
from collections.abc import AsyncIterator
from functools import partial
from itertools import count
from typing import Final, NamedTuple

from hack.bench import scene, target
from hack.bench.process import Meter
from hack.bench.row import Goal, Limit, Row, Sample, Scale, Turn, Values, take_turns
from hack.bench.scene import Scene
from hack.bench.target import Target
from sharder.core.names import RingName as Name
from sharder.core.names import owner_label

NONE, NULL, OURS = "no webhook", "null webhook", "the sharder"
RING: Final = "bench"
RATE, CPU = "per second", "webhook CPU, µs"


class Called(NamedTuple):
    """A webhook that is called for the Secrets of a namespace."""

    namespace: str
    process: int | None = None
    label: str = ""
    """The label that the webhook adds, or a part of it."""


async def samples(scale: Scale) -> AsyncIterator[Sample]:
    """Create Secrets in a namespace without webhook, in one with `Null`, and in one of a ring."""
    async with scene.started() as cluster, target.started(3) as server:
        await cluster.add_ring(RING, shards=3)
        await cluster.add_namespace("ours", RING)
        await cluster.add_namespace("none")
        await cluster.add_namespace("null")
        await asyncio.to_thread(cluster.plane.apply, configuration(server))
        await until_called(cluster)
        creates = scale.of(3_000, 30)
        webhooks = {
            NONE: Called("none"),
            NULL: Called("null", server.pid, "some-shard-of-mine"),
            OURS: Called("ours", cluster.pids["sharder"], owner_label(Name(RING))),
        }
        turns = [
            Turn(case, 0, partial(turn, cluster, webhook, creates, count()))
            for case, webhook in webhooks.items()
        ]
        async for sample in take_turns(scale.of(7, 1), turns):
            yield sample


async def turn(cluster: Scene, called: Called, creates: int, rounds: "count[int]") -> Values:
    """Create Secrets, and require that each gets the label."""
    pids = {name: pid for name, pid in cluster.pids.items() if name != "sharder"}
    meter = Meter(pids if called.process is None else {"webhook": called.process, **pids})
    report = await cluster.create(
        called.namespace, creates, first=next(rounds) * creates, expect=called.label
    )
    return {RATE: creates / report.seconds, "p99, ms": report.p99 * 1e3, **meter.per(creates)}


def configuration(server: Target) -> str:
    """Return the configuration of `Null` for the new Secrets of one namespace."""
    trusted = base64.b64encode(server.trusted.encode()).decode()
    return f"""
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {{name: "null"}}
webhooks:
  - name: null.bench.example.com
    clientConfig: {{url: "{server.null}/null", caBundle: {trusted}}}
    rules: [{{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}}]
    namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: "null"}}}}
    sideEffects: None
    admissionReviewVersions: [v1]
"""


async def until_called(cluster: Scene) -> None:
    """Return when the API server calls `Null`."""
    for number in count():
        await cluster.create("null", 1, first=-1 - number)
        if await asyncio.to_thread(cluster.has_any, "null", "shard"):
            return


ROW: Final = Row(
    name="creates",
    what="A create of a Secret through a real API server by 20 clients: in a namespace without "
    "webhook, with a webhook that answers with a constant patch, and with the sharder's.",
    samples=samples,
    base=NULL,
    goals=[
        Goal(case=OURS, column=RATE, limit=Limit(0.95, at_least=True), over=NULL),
        Goal(case=OURS, column=CPU, limit=Limit(150)),
    ],
)
