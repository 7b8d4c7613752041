"""Facts about `sharder.core.quantities`: Kubernetes quantities as numbers."""

import re
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from sharder.core.quantities import MAX_LENGTH, MAX_PARTS, quantities, quantity

CLIENT: Callable[[str], Decimal] = parse_quantity

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", "0"),
        ("4", "4"),
        ("500m", "0.5"),
        ("1.5", "1.5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("8Gi", "8589934592"),
        ("1.5Ki", "1536"),
        ("100n", "0.0000001"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1e+3", "1000"),
        ("25e-1", "2.5"),
        ("1E", "1000000000000000000"),
        ("2Ei", "2305843009213693952"),
    ],
)
def test_a_quantity_is_a_number(text: str, number: str) -> None:
    assert quantity(text) == Decimal(number)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "1 ", "-1", "+1", "1,5", "1.5.5", ".", "Gi", "0x10", "1_000", "٣"),
        *("1ki", "1mi", "1K", "1Gib", "1Q", "1e", "1e+", "1e1000", "1eM", "NaN", "Infinity"),
        *("9" * 19, "1." + "1" * 10),
    ],
)
def test_an_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a quantity|has the unknown suffix"):
        quantity(text)


def test_a_suffix_of_no_quantity_is_named() -> None:
    with pytest.raises(ValueError, match="'1Q' has the unknown suffix 'Q'"):
        quantity("1Q")


def _ascii(pattern: str) -> st.SearchStrategy[str]:
    return st.from_regex(pattern, fullmatch=True, alphabet=st.characters(codec="ascii"))


@given(
    _ascii(r"[0-9]{1,18}(\.[0-9]{0,9})?|\.[0-9]{1,9}"),
    st.sampled_from(SUFFIXES) | _ascii("[eE][+-]?[0-9]{1,2}"),
)
def test_a_quantity_is_the_number_that_the_kubernetes_client_reads(
    number: str, suffix: str
) -> None:
    assert quantity(number + suffix) == CLIENT(number + suffix)


@given(st.text(alphabet="0123456789.eE+-numkMGTPEi ", max_size=8))
def test_what_we_take_for_a_quantity_is_one_for_the_kubernetes_client(text: str) -> None:
    try:
        number = quantity(text)
    except ValueError:
        return

    assert CLIENT(text) == number


def test_a_list_names_resources_and_their_quantities() -> None:
    assert quantities(" objects=6000, cpu = 500m ,example.com/gpu=2") == {
        "objects": Decimal(6000),
        "cpu": Decimal("0.5"),
        "example.com/gpu": Decimal(2),
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'' is not of the form resource=quantity"),
        ("cpu", "'cpu' is not of the form resource=quantity"),
        ("cpu=1,", "'' is not of the form resource=quantity"),
        ("=1", "'=1' is not of the form resource=quantity"),
        ("c pu=1", "'c pu=1' is not of the form resource=quantity"),
        ("cpu=1, cpu=2", "'cpu' is listed twice"),
        ("cpu=1=2", "'1=2' is not a quantity such as 4, 500m or 8Gi"),
        ("cpu=", "'' is not a quantity such as 4, 500m or 8Gi"),
    ],
)
def test_the_part_of_a_list_that_cannot_be_understood_is_named(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        quantities(text)


def test_a_list_that_is_too_long_is_not_even_looked_at() -> None:
    longest = "cpu=1".ljust(MAX_LENGTH)

    assert quantities(longest) == {"cpu": Decimal(1)}
    with pytest.raises(ValueError, match="a list of quantities has at most 4096 characters"):
        quantities(longest + " ")


def test_a_list_has_a_limited_number_of_parts() -> None:
    most = [f"r-{number}=1" for number in range(MAX_PARTS)]

    assert len(quantities(",".join(most))) == MAX_PARTS
    with pytest.raises(ValueError, match="a list of quantities has at most 32 parts"):
        quantities(",".join([*most, "cpu=1"]))


@pytest.mark.parametrize("read", [quantity, quantities])
def test_only_the_beginning_of_a_long_text_is_repeated(read: Callable[[str], object]) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 -- any message, if it is short
        read("x" * 100_000)

    assert len(str(raised.value)) < 100
