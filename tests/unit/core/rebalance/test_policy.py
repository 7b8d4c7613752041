"""Facts about `sharder.core.rebalance.policy`."""

import pytest

from sharder.core.api.ring import RebalanceSpec, RebalanceStrategy
from sharder.core.rebalance.policy import RebalancePolicy, policy_of


def test_a_ring_that_says_nothing_has_the_defaults() -> None:
    assert policy_of(RebalanceSpec()) == RebalancePolicy(
        strategy=RebalanceStrategy.NONE,
        resources=("cpu", "memory"),
        threshold=None,
        min_gain=0.02,
    )


def test_numbers_are_read_from_text() -> None:
    policy = policy_of(RebalanceSpec(threshold="0.15", min_gain="1"))

    assert (policy.threshold, policy.min_gain) == (0.15, 1.0)


@pytest.mark.parametrize("text", ["", "auto", "-0.1", "15%", ".5", "1e3", "nan", "0." + "1" * 19])
def test_a_threshold_that_is_no_number_is_refused_with_advice(text: str) -> None:
    with pytest.raises(ValueError, match=r'rebalance\.threshold .* must be Auto or a .*"0\.15"'):
        policy_of(RebalanceSpec(threshold=text))


@pytest.mark.parametrize("text", ["", "Auto", "-0.05"])
def test_a_gain_that_is_no_number_is_refused_with_advice(text: str) -> None:
    with pytest.raises(ValueError, match=r'rebalance\.minGain .* must be .* "0\.02"'):
        policy_of(RebalanceSpec(min_gain=text))


@pytest.mark.parametrize(
    ("resources", "problem"),
    [((), "must not be empty"), (("cpu", "memory", "cpu"), "names 'cpu' twice")],
)
def test_resources_that_make_no_sense_are_refused(
    resources: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        policy_of(RebalanceSpec(resources=resources))
