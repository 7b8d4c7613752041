"""Facts about `sharder.cli.serve.service`: how long a stop waits."""

from math import inf

import pytest

from sharder.cli.serve.service import shares_of


@pytest.mark.parametrize(
    ("timeout", "shares"),
    [
        pytest.param(15, (10, 5), id="the default"),
        pytest.param(60, (10, 50), id="more than is needed"),
        pytest.param(3, (2, 1), id="less than is needed"),
        pytest.param(0, (0, 0), id="at once"),
        pytest.param(-1, (10, inf), id="without limit"),
    ],
)
def test_the_quiet_period_is_10_s_or_two_thirds_of_the_time_for_a_stop(
    timeout: float, shares: tuple[float, float]
) -> None:
    assert shares_of(timeout) == shares
