"""Facts about `sharder.core.rebalance.policy`."""

import pytest

from sharder.core.api.ring import RebalanceSpec
from sharder.core.rebalance.policy import policy_of


@pytest.mark.parametrize(
    ("resources", "problem"),
    [((), "must not be empty"), (("cpu", "memory", "cpu"), "names 'cpu' twice")],
)
def test_resources_that_make_no_sense_are_refused(
    resources: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        policy_of(RebalanceSpec(resources=resources))
