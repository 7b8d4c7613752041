"""The alerts fire on series of a live scrape, and nothing asks for a metric that is not in one."""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from prometheus_client.samples import Sample

from hack.control_plane import ControlPlane
from sharder.core.api.meta import Json, Resource
from sharder.core.names import CREATED_WEBHOOK_NAME, EVACUATE_ANNOTATION, GroupResource
from tests.support.alerts import Change, changed, judge, queries, rules, samples_of, series
from tests.support.eventually import eventually
from tests.support.samples import total
from tests.support.scene import Scene
from tests.support.service import Service
from tests.support.users import CONFIGMAPS, WITHIN

OURS = "controller_sharding_"
UNWRITABLE = Resource(
    id=GroupResource("", "limitranges"), version="v1", kind="LimitRange", namespaced=True
)
READ_ONLY = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reads-limits}
rules:
  - {apiGroups: [""], resources: [limitranges], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reads-limits}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reads-limits}
subjects: [{kind: ServiceAccount, name: sharder, namespace: sharding-system}]
"""
"""The sharder cannot write what it is to assign."""

NAMES = [rule["alert"] for rule in rules()]
USED = re.compile(
    r"\b((?:controller_sharding|process|python|apiserver|rest_client|workqueue)_[a-z_]+)\b"
)


def condition(kind: str, status: str, values: str) -> Change:
    labels = {"condition": kind, "status": status}
    return Change(name=f"{OURS}controllerring_condition", labels=labels, values=values)


def answers(outcome: str) -> Change:
    return Change(
        name=f"{OURS}admission_answers_total",
        labels={"outcome": "assigned"},
        values="0+10",
        become={"outcome": outcome},
    )


def buckets(le: str, values: str) -> Change:
    name = f"{OURS}admission_duration_seconds_bucket"
    return Change(name=name, labels={"le": le}, values=values)


CALM = (
    Change(name=f"{OURS}overdue_drains", values="0"),
    condition("Ready", "True", "1"),
    condition("Ready", "False", "0"),
    Change(name=f"{OURS}controllerring_status_available_shards", values="1"),
)
"""What would be so if no write were refused, all drains acknowledged, and each ring had shards."""

BREAKS: Mapping[str, Sequence[Change]] = {
    "SharderDown": [Change(name=f"{OURS}build_info")],
    "SharderNoLeader": [Change(name=f"{OURS}leader", values="0")],
    "SharderRingNotReady": [condition("Ready", "True", "0"), condition("Ready", "False", "1")],
    "SharderNoShards": [
        Change(name=f"{OURS}controllerring_status_available_shards", values="0")
    ],
    "SharderObjectsUnassigned": [
        Change(name=f"{OURS}unassigned_oldest_seconds", values="200+60")
    ],
    "SharderObjectsOnDeadShard": [
        Change(name=f"{OURS}shard_state", labels={"state": "dead"}, values="1"),
        Change(name=f"{OURS}shard_objects", values="7"),
    ],
    "SharderDrainsOverdue": [Change(name=f"{OURS}overdue_drains", values="3")],
    "SharderCapacityExhausted": [
        condition("CapacityExhausted", "True", "1"), condition("CapacityExhausted", "False", "0")
    ],
    "SharderObjectWritesFail": [Change(name=f"{OURS}object_failures_total", values="0+1")],
    "SharderReplicaBlind": [
        Change(name=f"{OURS}watch_healthy", labels={"watch": "leases"}, values="0")
    ],
    "SharderAdmissionErrors": [answers("internal_error")],
    "SharderAdmissionSkipped": [
        Change(name="apiserver_admission_webhook_fail_open_count", values="0+6")
    ],
    "SharderAdmissionSlow": [buckets("1.0", "0+60"), buckets("+Inf", "0+60")],
    "SharderCertificateExpiring": [
        # Time begins at 0 in promtool.
        Change(
            name=f"{OURS}certificate_expiry_timestamp_seconds",
            labels={"certificate": "serving"},
            values="500000",
        )
    ],
}  # fmt: skip
"""What is wrong when an alert fires."""


@dataclass(frozen=True, kw_only=True)
class Scrapes:
    """What was read while a shard did not acknowledge, and an object could not be written."""

    sharder: str
    apiserver: str
    """After the sharder was killed."""

    @cached_property
    def samples(self) -> list[Sample]:
        """The samples by which alerts are judged."""
        used = {name for rule in rules() for name in USED.findall(rule["expr"])}
        every = samples_of(self.sharder) + [
            each
            for each in samples_of(self.apiserver)
            if each.labels.get("name") == CREATED_WEBHOOK_NAME
        ]
        return [each for each in every if each.name in used]


@pytest.fixture(scope="module")
def scrapes() -> Iterator[Scrapes]:
    with ControlPlane() as plane:
        plane.apply(READ_ONLY)
        service = Service(plane)
        service.start()
        yield asyncio.run(record(service))


async def record(service: Service) -> Scrapes:
    await service.until_ready()
    placement: Json = {"strategy": "BoundedLoad", "perShardCapacity": 5}
    movement: Json = {"drainTimeout": "1s"}
    async with service.scene(
        CONFIGMAPS, UNWRITABLE, shards="", placement=placement, movement=movement
    ) as scene:
        await scene.admin.create(UNWRITABLE, "refused", namespace=scene.namespace)
        await scene.join("a")
        await scene.until_placing(CONFIGMAPS)
        for number in range(3):
            await scene.create(CONFIGMAPS, f"object-{number}")
        await scene.join("b")
        annotations: Json = {EVACUATE_ANNOTATION: "true"}
        await scene.describe_lease("a", {"metadata": {"annotations": annotations}})
        sharder = await eventually(lambda: troubled(service), within=WITHIN)
        await asyncio.to_thread(service.playground.kill, "sharder-0")
        apiserver = await eventually(lambda: skipped(service, scene), within=WITHIN)
        # The end of the scene waits for what a sharder cleans up.
        service.playground.start_sharder(gracefulShutDown="0s")
    return Scrapes(sharder=sharder, apiserver=apiserver)


async def troubled(service: Service) -> str:
    """Return a scrape with all that the alerts ask for."""
    scrape = await asyncio.to_thread(service.playground.scrape)
    for name in ("overdue_drains", "object_failures_total", "unassigned_objects", "shard_objects"):
        assert total(scrape, OURS + name) > 0, name
    return scrape


async def skipped(service: Service, scene: Scene) -> str:
    """Return the API server's metrics after it has skipped the webhook."""
    await scene.author.create(CONFIGMAPS, "skipped", namespace=scene.namespace, dry_run=True)
    scrape = await asyncio.to_thread(service.plane.kubectl, "get", "--raw", "/metrics")
    assert (
        total(scrape, "apiserver_admission_webhook_fail_open_count", name=CREATED_WEBHOOK_NAME) > 0
    )
    return scrape


def kinds_in(scrape: str) -> dict[str, str]:
    """Return the types of all metrics of a scrape, by their names as they are queried."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", scrape, re.MULTILINE))


@pytest.mark.parametrize("alert", NAMES)
def test_an_alert_fires_alone(scrapes: Scrapes, tmp_path: Path, alert: str) -> None:
    given = changed(scrapes.samples, [*CALM, *BREAKS[alert]])

    judge(tmp_path, given, [alert])


def test_while_all_is_well_no_alert_fires(scrapes: Scrapes, tmp_path: Path) -> None:
    judge(tmp_path, changed(scrapes.samples, CALM), [])


def test_a_ring_that_cannot_be_decoded_raises_an_alert(scrapes: Scrapes, tmp_path: Path) -> None:
    # No API server stores such a ring by the CRD of this version.
    unreadable = series(f"{OURS}controllerring_unreadable", {"controllerring": "new"}, "1")
    given = [*changed(scrapes.samples, CALM), unreadable]

    judge(tmp_path, given, ["SharderRingNotReady"])


def test_alerts_and_dashboard_ask_only_for_what_a_scrape_has(scrapes: Scrapes) -> None:
    there = kinds_in(scrapes.sharder) | kinds_in(scrapes.apiserver)
    asked = {
        name.removesuffix("_bucket")
        for query in [*queries(), *(rule["expr"] for rule in rules())]
        for name in USED.findall(query)
    }

    assert sorted(asked - there.keys()) == []
