"""What kopf runs on an object, and when its drain is acknowledged."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import kopf
import pytest

from sharder.kopf.handler_gate import HandlerGate
from sharder.sdk.testing.fake_clock import settle
from sharder.shard.identity import Identity
from tests.support.values import DEMO, DRAIN, OWNER, SECRETS, A, B

UID = "uid-1"
SECRET = kopf.Resource("", "v1", "secrets")
OTHER_RESOURCE = kopf.Resource("", "v1", "configmaps")
OURS: dict[str, str] = {OWNER: A}
DRAINING: dict[str, str] = {OWNER: A, DRAIN: "true"}
ON_OBJECT: dict[str, Any] = {"uid": UID, "resource": SECRET}

AsyncFunction = Callable[..., Coroutine[Any, Any, object]]


class Scene:
    """A shard that holds its Lease, and the handlers of an operator."""

    def __init__(self) -> None:
        self.holds_lease = True
        self.registry = kopf.OperatorRegistry()
        self.gate = HandlerGate(
            Identity(ring=DEMO, shard=A),
            [SECRETS],
            lifecycle=kopf.lifecycles.all_at_once,
            holds_lease=lambda: self.holds_lease,
            drain_grace=0,
        )

    def see(self, labels: dict[str, str], event: str = "MODIFIED") -> bool:
        meta = kopf.Body({"metadata": {"labels": labels, "resourceVersion": "10"}}).metadata
        return self.gate.notice(type=event, uid=UID, labels=meta.labels, meta=meta)

    def handler(self, function: Callable[..., object], **settings: Any) -> Any:
        kopf.on.update("secrets", registry=self.registry, **settings)(function)
        return list(self.registry._changing.get_all_handlers())[-1]

    def daemon(self, function: AsyncFunction, **settings: Any) -> Any:
        kopf.daemon("secrets", registry=self.registry, **settings)(function)
        return self.gate.guard(list(self.registry._spawning.get_all_handlers())[-1])

    def chosen(self, handler: Any, resource: kopf.Resource = SECRET) -> list[Any]:
        return list(self.gate.choose([handler], state={}, uid=UID, resource=resource))

    async def acknowledged(self, labels: dict[str, str]) -> dict[str, str]:
        """What is left of these labels, if they are those of the patched version."""
        body: Any = {"metadata": {"labels": {**labels, "app": "x"}}}
        patch = kopf.Patch(body=kopf.Body(body))
        await self.gate.acknowledge(uid=UID, patch=patch)
        for function in patch.fns:
            function(body)
        left: dict[str, str] = body["metadata"]["labels"]
        return left


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def wait_for_ever(**_: object) -> None:
    await asyncio.Event().wait()


def nothing(**_: object) -> None: ...


@pytest.mark.parametrize(
    ("labels", "event", "holds_lease", "starts"),
    [
        (OURS, "MODIFIED", True, 1),
        (OURS, "MODIFIED", False, 0),
        (OURS, "DELETED", True, 0),
        (DRAINING, "MODIFIED", True, 0),
        ({OWNER: B}, "MODIFIED", True, 0),
        ({}, "MODIFIED", True, 0),
    ],
)
def test_a_handler_starts_only_on_an_object_that_is_surely_ours_and_stays(
    scene: Scene, labels: dict[str, str], event: str, holds_lease: bool, starts: int
) -> None:
    assert not scene.see(OURS)
    scene.see(labels, event)
    scene.holds_lease = holds_lease

    assert len(scene.chosen(scene.handler(nothing))) == starts


@pytest.mark.parametrize(("version", "starts"), [("9", 1), ("11", 0)])
def test_an_object_that_has_gone_without_an_event_is_forgotten_unless_it_was_seen_since(
    scene: Scene, version: str, starts: int
) -> None:
    scene.see(OURS)

    scene.gate.forget({UID}, version)

    assert len(scene.chosen(scene.handler(nothing))) == starts


@pytest.mark.parametrize(
    ("labels", "holds_lease", "left"),
    [
        (DRAINING, True, {}),
        (DRAINING, False, DRAINING),
        (OURS, True, OURS),
        ({OWNER: B, DRAIN: "true"}, True, {OWNER: B, DRAIN: "true"}),
        ({}, True, {}),
    ],
)
async def test_a_drain_is_acknowledged_by_the_removal_of_both_labels_while_it_is_ours_to_do(
    scene: Scene, labels: dict[str, str], holds_lease: bool, left: dict[str, str]
) -> None:
    assert scene.see(DRAINING)
    scene.holds_lease = holds_lease

    assert await scene.acknowledged(labels) == {**left, "app": "x"}


@pytest.mark.parametrize("limit", [{"retries": 1}, {"timeout": 100.0}])
async def test_a_handler_with_a_limit_of_attempts_or_time_is_not_cancelled(
    scene: Scene, limit: dict[str, float]
) -> None:
    scene.see(OURS)
    (handler,) = scene.chosen(scene.handler(wait_for_ever, **limit))
    running = asyncio.create_task(handler.fn())
    await settle()

    scene.gate.cancel(UID)
    await settle()

    assert not running.done()
    running.cancel()


async def test_sub_handlers_run_within_their_handler_even_if_it_drains_by_now(
    scene: Scene,
) -> None:
    scene.see(OURS)
    outer = scene.handler(wait_for_ever)
    (handler,) = scene.chosen(outer)
    running = asyncio.create_task(handler.fn())
    await settle()
    scene.see(DRAINING)

    assert scene.chosen(outer) == [outer]
    running.cancel()


def test_a_daemon_matches_while_its_object_is_ours_and_its_own_filter_holds(scene: Scene) -> None:
    guarded = scene.daemon(wait_for_ever)
    picky = scene.daemon(wait_for_ever, when=lambda **kwargs: kwargs["name"] == "y")

    scene.see(OURS)

    assert guarded.when(**ON_OBJECT)
    assert picky.when(name="y", **ON_OBJECT)
    assert not picky.when(name="x", **ON_OBJECT)

    scene.see(DRAINING)

    assert not guarded.when(**ON_OBJECT)
    assert guarded.when(uid=UID, resource=OTHER_RESOURCE)


async def test_daemons_are_cancelled_if_their_object_is_not_ours(scene: Scene) -> None:
    daemon = scene.daemon(wait_for_ever)

    async def runner() -> None:
        daemon.initial_delay(**ON_OBJECT)
        await asyncio.Event().wait()

    running = asyncio.create_task(runner())
    await settle()
    scene.see(OURS)
    scene.gate.cancel(UID)
    await settle()
    assert not running.done()

    scene.see(OURS, "DELETED")
    await asyncio.sleep(0)
    await settle()

    assert running.cancelled()
