"""What a watch has shown follows from its position alone."""

from hypothesis import given
from hypothesis import strategies as st

from sharder.core.api.meta import ObjectMeta, OwnerReference
from sharder.core.names import ObjectRef
from sharder.sdk.reads.versions import Writes, is_reached, newest

NUMBERS = st.integers(min_value=1, max_value=2**64)
WRITES = st.lists(st.tuples(st.sampled_from("abcd"), NUMBERS), max_size=20)


def meta(name: str, version: int, *, of: str = "parent") -> ObjectMeta:
    controller = OwnerReference(uid=of, controller=True)
    return ObjectMeta(name=name, resource_version=str(version), owner_references=[controller])


@given(NUMBERS, NUMBERS)
def test_numbers_are_reached_in_their_order(position: int, version: int) -> None:
    assert is_reached(str(position), str(version)) is (position >= version)


@given(st.text(), st.text())
def test_what_was_reached_is_reached_by_what_comes_later(position: str, version: str) -> None:
    if is_reached(position, version):
        assert is_reached(newest([position, version]), version)


@given(st.text())
def test_nothing_is_reached_before_the_first_list(version: str) -> None:
    assert not is_reached("", version)


@given(st.text(min_size=1))
def test_each_position_reaches_itself_and_nothing(position: str) -> None:
    assert is_reached(position, position)
    assert is_reached(position, "")


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_version_that_is_no_number_is_reached_only_by_itself(left: str, right: str) -> None:
    if not (left.isascii() and left.isdecimal()):
        assert is_reached(left, right) is (left == right)
        assert is_reached(right, left) is (left == right)


@given(st.lists(NUMBERS))
def test_the_newest_reaches_all(versions: list[int]) -> None:
    texts = [str(version) for version in versions]

    last = newest(texts)

    assert last in {"", *texts}
    assert all(is_reached(last, text) for text in texts)


@given(WRITES, NUMBERS)
def test_what_is_pending_is_what_was_written_after_the_position(
    written: list[tuple[str, int]], position: int
) -> None:
    writes = Writes()
    for name, version in written:
        writes.add(meta(name, version))

    writes.shown(str(position))

    for name in "abcd":
        last = max((version for each, version in written if each == name), default=0)
        expected = str(last) if last > position else ""
        assert writes.to(ObjectRef("", name)) == expected


@given(WRITES, WRITES)
def test_the_children_of_each_object_are_waited_for_apart(
    ours: list[tuple[str, int]], others: list[tuple[str, int]]
) -> None:
    writes = Writes()
    for name, version in ours:
        writes.add(meta(f"ours-{name}", version, of="ours"))
    for name, version in others:
        writes.add(meta(f"others-{name}", version, of="others"))

    last = max((version for _, version in ours), default=0)
    assert writes.to_children_of("ours") == (str(last) if last else "")


@given(WRITES)
def test_a_watch_that_has_shown_the_newest_write_leaves_none(
    written: list[tuple[str, int]],
) -> None:
    writes = Writes()
    for name, version in written:
        writes.add(meta(name, version))

    writes.shown(newest(str(version) for _, version in written))

    assert len(writes) == 0
