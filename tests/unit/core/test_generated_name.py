"""Facts about `sharder.core.keys`."""

import pytest

from sharder.core.keys import generated_name


@pytest.mark.parametrize(
    ("prefix", "length"),
    [(0, 10), (42, 52), (43, 48), (47, 52), (53, 58), (58, 63), (59, 63), (253, 63)],
)
def test_a_name_keeps_to_the_limits_that_names_of_kubernetes_own_keep_to(
    prefix: int, length: int
) -> None:
    assert len(generated_name("x" * prefix, "uid")) == length
