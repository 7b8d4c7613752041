"""The releases of a proxied shard."""

import asyncio
from unittest.mock import AsyncMock, Mock

import pytest

from sharder.core.api.meta import ObjectMeta
from sharder.core.errors import Unavailable
from sharder.core.names import GroupResource, RingName, ShardName
from sharder.proxy.here import Here
from sharder.proxy.work import Work
from sharder.shard.identity import Identity
from tests.support.eventually import eventually


async def test_an_object_that_cannot_be_released_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sharder.proxy.work._POLL_SECONDS", 0.01)
    identity = Identity(ring=RingName("jobs"), shard=ShardName("me"))
    view, followers = Mock(), Mock()
    view.gate.kinds = {}
    view.gate.here = Here(identity, lambda: 100.0)
    labels = {identity.owner_label: "me", identity.drain_label: "true"}
    meta = ObjectMeta(name="one", uid="u1", resource_version="1", labels=labels)
    view.gate.here.changed(GroupResource("batch", "jobs"), meta)
    patch = AsyncMock(side_effect=Unavailable("not now"))
    followers.objects.return_value.patch = patch
    work = Work(Mock(identity=identity), view, followers, left=Mock(), end_streams=Mock())

    async def is_repeated() -> bool:
        return patch.await_count > 2

    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(work.run(stop))
        await eventually(is_repeated, within=5)
        stop.set()
    assert len(caplog.records) == 1
