"""Facts about the commands that steer shards and rings."""

import pytest
from typing_extensions import override

from sharder.cli.steering import EVACUATE, MAX_TRIES, PAUSE
from sharder.core.errors import Conflict, SharderError
from sharder.sdk.testing.storage import Tree
from sharder.sdk.testing.writer import Admission, Attributes
from tests.support.steered_cluster import IS_EVACUATED, Steered


class Forgetful(Admission):
    """A server whose CRD does not know the field drops it without a word."""

    @override
    async def mutate(self, attributes: Attributes) -> Tree:
        return attributes.old or {}


@pytest.fixture
async def cluster() -> Steered:
    steered = Steered()
    await steered.filled()
    return steered


async def test_a_write_that_loses_a_race_is_decided_anew_with_one_warning(
    cluster: Steered, capsys: pytest.CaptureFixture[str]
) -> None:
    await cluster.pause()
    cluster.writes.races = MAX_TRIES - 1

    await cluster.steer(EVACUATE)

    assert await cluster.annotations() == {**IS_EVACUATED, "written": "before 0"}
    assert capsys.readouterr().err == (
        'warning: movement of demo is paused; run "sharder resume" to continue\n'
    )


async def test_a_race_that_never_ends_is_given_up(cluster: Steered) -> None:
    cluster.writes.races = MAX_TRIES

    with pytest.raises(Conflict):
        await cluster.steer(EVACUATE)

    assert await cluster.annotations() == {"written": "before 0"}


async def test_a_crd_that_drops_the_field_is_reported(cluster: Steered) -> None:
    cluster.server.writer.admission = Forgetful()

    with pytest.raises(
        SharderError, match=r"demo did not keep the change: .* CRD is from an older"
    ):
        await cluster.steer(PAUSE)
