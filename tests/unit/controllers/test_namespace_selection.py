"""Facts about the namespaces that rings select."""

from collections.abc import Mapping

from typing_extensions import override

from sharder.controllers.namespace_selection import NamespaceSelection
from sharder.core.api.selector import LabelSelector
from sharder.core.names import RingName

ALL = LabelSelector()
BLUE = LabelSelector(match_labels={"team": "blue"})
RINGS = [RingName(f"ring-{number}") for number in range(1_000)]


class Labels(dict[str, str]):
    """Labels that count how often a selector asks for one."""

    def __init__(self, **labels: str) -> None:
        super().__init__(labels)
        self.asked = 0

    @override
    def get(self, key: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.asked += 1
        return super().get(key, default)


def selections(namespaces: Mapping[str, Mapping[str, str]]) -> NamespaceSelection:
    made = NamespaceSelection(frozenset({"system"}))
    made.replace(namespaces)
    return made


def test_rings_with_equal_selectors_share_one_selection() -> None:
    known = selections({"one": {"team": "blue"}, "two": {}, "system": {"team": "blue"}})

    found = [known.of(ring, LabelSelector(match_labels={"team": "blue"})) for ring in RINGS]

    assert found[0] == {"one"}
    assert all(each is found[0] for each in found)


def test_a_namespace_is_judged_once_for_all_rings_with_the_same_selector() -> None:
    known = selections({})
    for ring in RINGS:
        known.of(ring, BLUE)
    known.of(RingName("other"), ALL)
    labels = Labels(team="blue")

    affected = known.change("new", labels)

    assert set(affected) == {*RINGS, "other"}
    assert labels.asked == 1
    assert known.of(RINGS[0], BLUE) is known.of(RINGS[-1], BLUE)
    assert known.of(RINGS[0], BLUE) == {"new"}


def test_a_namespace_that_a_ring_does_not_select_does_not_concern_it() -> None:
    known = selections({"one": {"team": "blue"}})
    before = known.of(RINGS[0], BLUE)

    affected = [*known.change("two", {}), *known.change("two", {"team": "red"})]
    affected += known.change("two", None)

    assert affected == []
    assert known.of(RINGS[0], BLUE) is before


def test_a_list_concerns_only_those_for_whom_something_is_another() -> None:
    known = selections({"one": {"team": "blue"}, "two": {}})
    known.of(RINGS[0], BLUE)
    known.of(RINGS[1], ALL)

    same = known.replace({"one": {"team": "blue"}, "two": {}})
    fewer = known.replace({"one": {"team": "blue"}})

    assert (same, fewer) == (set(), {RINGS[1]})
    assert known.of(RINGS[1], ALL) == {"one"}


def test_a_ring_that_selects_otherwise_leaves_the_selection_of_the_others() -> None:
    known = selections({"one": {"team": "blue"}})
    known.of(RINGS[0], BLUE)
    known.of(RINGS[1], BLUE)

    known.of(RINGS[0], ALL)
    affected = known.change("two", {})

    assert set(affected) == {RINGS[0]}


def test_a_ring_that_is_gone_leaves_nothing_behind() -> None:
    known = selections({})
    known.of(RINGS[0], BLUE)
    known.forget(RINGS[0])
    known.forget(RINGS[0])
    labels = Labels(team="blue")

    assert known.change("one", labels) == set()
    assert labels.asked == 0


def test_the_names_of_all_namespaces_are_the_same_object_until_one_comes_or_goes() -> None:
    known = selections({"one": {}})
    before = known.known

    known.change("one", {"team": "blue"})
    same = known.known
    known.change("two", {})

    assert same is before
    assert known.known == {"one", "two"}


def test_what_was_there_before_it_was_selected_did_not_begin_empty() -> None:
    known = selections({"old": {"team": "blue"}, "late": {}})
    ring = RINGS[0]
    known.of(ring, BLUE)

    known.change("new", {"team": "blue"})
    known.change("late", {"team": "blue"})
    first = [known.is_fresh(ring, name) for name in ("new", "late", "old")]
    known.change("new", {})
    known.change("new", {"team": "blue"})

    assert first == [True, False, False]
    assert not known.is_fresh(ring, "new")
    assert not known.is_fresh(RingName("unknown"), "new")


def test_whether_a_ring_selects_a_namespace_is_known_before_its_set_is_built() -> None:
    known = selections({"one": {"team": "blue"}})
    before = known.of(RINGS[0], BLUE)
    known.change("two", {"team": "blue"})

    answers = [known.selects(RINGS[0], name) for name in ("one", "two", "three")]

    assert answers == [True, True, None]
    assert known.selects(RingName("unknown"), "one") is None
    assert "two" not in before
