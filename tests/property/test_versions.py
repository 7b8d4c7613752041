"""What a watch has shown follows from its position alone."""

from hypothesis import given
from hypothesis import strategies as st

from sharder.sdk.reads.cache import is_reached

NUMBERS = st.integers(min_value=1, max_value=2**64)


@given(NUMBERS, NUMBERS)
def test_numbers_are_reached_in_their_order(position: int, version: int) -> None:
    assert is_reached(str(position), str(version)) is (position >= version)


@given(st.text(min_size=1))
def test_each_position_reaches_itself_and_nothing_and_none_is_reached_before_the_first_list(
    position: str,
) -> None:
    assert is_reached(position, position)
    assert is_reached(position, "")
    assert not is_reached("", position)
    assert not is_reached("", "")


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_version_that_is_no_number_is_reached_only_by_itself(left: str, right: str) -> None:
    if not (left.isascii() and left.isdecimal()):
        assert is_reached(left, right) is (left == right)
        assert is_reached(right, left) is (left == right)
