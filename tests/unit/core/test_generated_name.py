"""Facts about `sharder.core.keys`."""

import re

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


def test_a_name_is_the_prefix_and_what_kubernetes_uses_for_generated_names() -> None:
    assert re.fullmatch(r"web-[bcdfghjklmnpqrstvwxz2456789]{10}", generated_name("web-", "uid"))


def test_a_name_depends_on_the_request_and_on_nothing_else() -> None:
    names = [generated_name("web-", uid) for uid in ("a", "a", "b")]

    assert names[0] == names[1] != names[2]
