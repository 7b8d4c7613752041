"""Controllers that nobody changed work in shards: no pod too many, none too few."""

from pathlib import Path

import pytest

from tests.long.job_story import DEPLOYMENTS, JOBS, SETS, outcome

pytestmark = pytest.mark.long


async def test_each_pod_is_made_once_whatever_happens_to_the_controllers(tmp_path: Path) -> None:
    found = await outcome(tmp_path)
    assert found[:5] == (7 * JOBS + SETS + DEPLOYMENTS, 0, 0, 0, 0)
