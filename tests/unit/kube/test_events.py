"""Facts about `sharder.kube.events`."""

import pytest

from sharder.core.api.meta import ObjectMeta, PartialObject
from sharder.kube.client import Client
from sharder.kube.events import KubeRecorder
from sharder.sdk.testing.fake_clock import FakeClock
from tests.unit.kube.conftest import Script

RING = PartialObject(
    api_version="sharding.timebertt.dev/v1alpha1",
    kind="ControllerRing",
    metadata=ObjectMeta(name="demo", uid="u"),
)


async def test_the_same_warning_is_recorded_once_in_ten_minutes(
    script: Script, client: Client
) -> None:
    script.then((201, {}))
    clock = FakeClock()
    recorder = KubeRecorder(client, clock=clock)

    await recorder.warn(RING, "NoShards", "no shard")
    await recorder.warn(RING, "NoShards", "no shard")
    await recorder.warn(RING, "NoShards", "still no shard")
    await clock.advance(600)
    await recorder.warn(RING, "NoShards", "no shard")

    assert len(script.asked) == 3


async def test_a_failure_is_logged_and_tried_again_next_time(
    script: Script, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    refused = (403, {"message": "cannot create events"})
    script.then(refused, refused, (201, {}))
    recorder = KubeRecorder(client, clock=FakeClock())

    with caplog.at_level("INFO", logger="sharder.kube.events"):
        for _ in range(3):
            await recorder.warn(RING, "NoShards", "no shard")

    told = [r.getMessage() for r in caplog.records if r.name == "sharder.kube.events"]
    assert [text.partition(":")[0] for text in told] == [
        "event not recorded",
        "events are recorded again",
    ]
    assert len(script.asked) == 3
