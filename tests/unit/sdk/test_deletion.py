"""Which objects get the finalizer, when `on_delete` runs, and what it leaves behind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from sharder.core.api.meta import Json
from sharder.sdk import OwnMeta, Request, Requeue, Shard
from sharder.sdk.predicates import Predicate, any_change
from sharder.sdk.testing import SETTINGS, FakeCluster, ShardTest
from sharder.shard.objects import OwnObject

ENABLED, FINALIZER, THEIRS = "example.com/enabled", "example.com/mirror", "example.org/theirs"
SECRET = {"kind": "Secret", "metadata": {"name": "demo", "labels": {ENABLED: "true"}}}
UNSELECTED = {"kind": "Secret", "metadata": {"name": "demo"}}


def is_enabled(meta: OwnMeta) -> bool:
    return meta.label(ENABLED) == "true"


def child_of(request: Request) -> Mapping[str, Json]:
    return {"kind": "ConfigMap", "metadata": {"name": f"{request.ref.name}-mirror"}}


@dataclass
class Mirror:
    """A controller that keeps a child and an entry in a registry for each enabled Secret."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    registry: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)

    async def reconcile(self, request: Request) -> None:
        self.calls.append("reconcile")
        self.registry.add(request.metadata.uid)
        await request.ensure(child_of(request))

    async def drop(self, request: Request) -> None:
        self.calls.append("drop")
        self.registry.discard(request.metadata.uid)
        if not await request.delete(child_of(request)):
            raise Requeue(after=1)

    def test(
        self,
        *,
        when: Predicate = any_change,
        selects: Callable[[OwnMeta], bool] = is_enabled,
    ) -> ShardTest:
        shard = Shard(ring="mirror", settings=SETTINGS)
        shard.reconciler(
            "secrets",
            self.reconcile,
            owns=["configmaps"],
            selects=selects,
            on_delete=self.drop,
            finalizer=FINALIZER,
            when=when,
        )
        return ShardTest(shard, self.cluster)

    async def enable(self, value: str | None = "true") -> None:
        await self.cluster.patch("secrets", "demo", {"metadata": {"labels": {ENABLED: value}}})

    async def disable(self) -> None:
        await self.enable(None)

    async def finalizers(self) -> tuple[str, ...]:
        return (await self.cluster.get("secrets", "demo", OwnObject)).metadata.finalizers

    async def is_clean(self) -> bool:
        """Whether nothing is left of the Secret but the Secret."""
        return not (
            self.registry or await self.cluster.list("configmaps") or await self.finalizers()
        )


@pytest.mark.parametrize("when", [any_change, lambda _old, _new: False], ids=["any", "never"])
async def test_an_object_is_set_up_and_cleaned_up_as_its_label_comes_and_goes(
    when: Predicate,
) -> None:
    mirror = Mirror()
    async with mirror.test(when=when) as test:
        await test.create(UNSELECTED)
        for _ in range(2):
            mirror.calls.clear()
            await mirror.enable()
            assert await mirror.finalizers() == (FINALIZER,)
            assert len(mirror.registry) == len(await mirror.cluster.list("configmaps")) == 1
            assert set(mirror.calls) == {"reconcile"}

            mirror.calls.clear()
            await mirror.disable()
            await mirror.cluster.advance(1)
            assert await mirror.is_clean()
            assert set(mirror.calls) == {"drop"}


async def test_an_object_that_was_deselected_while_no_shard_ran_is_cleaned_up_at_the_start() -> (
    None
):
    mirror = Mirror()
    async with mirror.test() as test:
        await test.create(SECRET)
    await mirror.disable()

    async with mirror.test():
        await mirror.cluster.advance(30)

        assert await mirror.is_clean()


async def test_a_selector_that_fails_neither_sets_up_nor_cleans_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mirror, broken = Mirror(), False

    def selects(meta: OwnMeta) -> bool:
        if broken:
            raise KeyError("tier")
        return is_enabled(meta)

    async with mirror.test(selects=selects) as test:
        await test.create(SECRET)
        mirror.calls.clear()
        broken = True
        await mirror.disable()
        assert mirror.calls == []
        assert "reconcile failed: default/demo: KeyError('tier')" in caplog.text

        broken = False
        await mirror.cluster.advance(5)
        assert set(mirror.calls) == {"drop"}


async def test_the_finalizer_of_a_kept_object_cannot_be_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = 0

    async def reconcile(request: Request) -> None:
        nonlocal runs
        runs += 1
        await request.remove_finalizer(THEIRS)
        await request.remove_finalizer(FINALIZER)

    async def drop(request: Request) -> None:
        await request.remove_finalizer(FINALIZER)

    shard = Shard(ring="mirror", settings=SETTINGS)
    shard.reconciler("secrets", reconcile, on_delete=drop, finalizer=FINALIZER)
    async with ShardTest(shard) as test:
        await test.create(SECRET)
        assert runs < 5
        assert f"the finalizer {FINALIZER} would be added to default/demo again" in caplog.text

        await test.cluster.delete("secrets", "demo")
        assert await test.cluster.list("secrets") == []


async def test_a_finalizer_is_retired_by_a_reconciler_without_on_delete() -> None:
    mirror = Mirror()
    async with mirror.test() as test:
        await test.create(SECRET)

    async def retire(request: Request) -> None:
        await request.remove_finalizer(FINALIZER)

    shard = Shard(ring="mirror", settings=SETTINGS)
    shard.reconciler("secrets", retire)
    async with ShardTest(shard, mirror.cluster):
        await mirror.cluster.advance(30)

        assert await mirror.finalizers() == ()
