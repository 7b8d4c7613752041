"""Facts about `sharder.core.rebalance.policy`."""

import pytest

from sharder.core.api.ring import RebalanceSpec
from sharder.core.rebalance.policy import policy_of


@pytest.mark.parametrize("text", ["", "auto", "-0.1", "15%", ".5", "1e3", "nan", "0." + "1" * 19])
def test_a_threshold_that_is_no_number_is_refused_with_advice(text: str) -> None:
    with pytest.raises(ValueError, match=r'rebalance\.threshold .* must be Auto or a .*"0\.15"'):
        policy_of(RebalanceSpec(threshold=text))


@pytest.mark.parametrize(
    ("resources", "problem"),
    [((), "must not be empty"), (("cpu", "memory", "cpu"), "names 'cpu' twice")],
)
def test_resources_that_make_no_sense_are_refused(
    resources: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        policy_of(RebalanceSpec(resources=resources))
