"""Facts about `sharder.core.placement.demand`: which objects belong together."""

from sharder.core.api.meta import ObjectMeta, OwnerReference, PartialObject
from sharder.core.api.ring import GroupBy
from sharder.core.api.selector import LabelSelector
from sharder.core.placement.demand import MAX_TRAITS, Grouping

WEB = {"app": "web"}
LABELS = Grouping(GroupBy(labels=("app", "tier")))
SELECTORS = Grouping(
    GroupBy(
        selectors=(
            LabelSelector(match_labels={"app": "web"}),
            LabelSelector(match_labels={"tier": "front"}),
        )
    )
)
OWNER = Grouping(GroupBy(owner=True))


def an(
    labels: dict[str, str] | None = None, *, namespace: str = "default", owner: str = ""
) -> PartialObject:
    """An object; `owner` is the uid of its controller."""
    references = [OwnerReference(kind="Set", name="s", uid=owner, controller=True)]
    return PartialObject(
        metadata=ObjectMeta(
            name="o",
            namespace=namespace,
            labels=labels,
            owner_references=references if owner else None,
        )
    )


def counts_for(grouping: Grouping, other: PartialObject, placed: PartialObject) -> bool:
    """Whether `other` is a member of the group that `placed` looks for."""
    return grouping.groups_of(placed)[-1] in grouping.groups_of(other)


def test_without_traits_an_object_belongs_together_with_nothing() -> None:
    for grouping in (Grouping(GroupBy()), LABELS, SELECTORS, OWNER):
        assert grouping.groups_of(an()) == ()


def test_an_object_is_a_member_of_its_own_group() -> None:
    for grouping, obj in ((LABELS, an(WEB)), (SELECTORS, an(WEB)), (OWNER, an(owner="u"))):
        assert counts_for(grouping, obj, obj)


def test_objects_with_equal_values_belong_together() -> None:
    assert counts_for(LABELS, an(WEB), an(WEB))
    assert not counts_for(LABELS, an({"app": "db"}), an(WEB))


def test_an_empty_value_is_a_value() -> None:
    assert counts_for(LABELS, an({"app": ""}), an({"app": ""}))
    assert not counts_for(LABELS, an({"tier": ""}), an({"app": ""}))


def test_only_the_keys_that_an_object_has_must_be_equal() -> None:
    both = an({"app": "web", "tier": "front"})

    assert counts_for(LABELS, both, an(WEB))
    assert not counts_for(LABELS, an(WEB), both)


def test_objects_that_match_the_same_selectors_belong_together() -> None:
    both = an({"app": "web", "tier": "front"})

    assert counts_for(SELECTORS, both, an(WEB))
    assert not counts_for(SELECTORS, an(WEB), both)
    assert not counts_for(SELECTORS, an({"tier": "front"}), an(WEB))


def test_objects_of_one_controller_belong_together() -> None:
    assert counts_for(OWNER, an(owner="u1"), an(WEB, owner="u1"))
    assert not counts_for(OWNER, an(owner="u2"), an(owner="u1"))


def test_controllers_do_not_count_unless_the_ring_says_so() -> None:
    assert LABELS.groups_of(an(owner="u")) == ()


def test_objects_of_two_namespaces_never_belong_together() -> None:
    for grouping in (LABELS, SELECTORS):
        assert not counts_for(grouping, an(WEB, namespace="other"), an(WEB))


def test_an_object_counts_for_every_combination_of_its_traits() -> None:
    grouping = Grouping(GroupBy(labels=("app", "tier"), owner=True))

    groups = grouping.groups_of(an({"app": "web", "tier": "front"}, owner="u"))

    assert len(set(groups)) == len(groups) == 2**3 - 1


def test_traits_that_no_schema_has_bounded_make_no_groups_without_end() -> None:
    keys = tuple(f"key-{number}" for number in range(30))
    first, beyond = keys[:MAX_TRAITS], keys[: MAX_TRAITS + 1]
    grouping = Grouping(GroupBy(labels=keys))

    assert len(grouping.groups_of(an(dict.fromkeys(keys, "x")))) == 2**MAX_TRAITS - 1
    assert counts_for(grouping, an(dict.fromkeys(first, "x")), an(dict.fromkeys(beyond, "x")))


def test_traits_of_different_sorts_are_never_taken_for_each_other() -> None:
    labels = Grouping(GroupBy(labels=("0",)))
    selectors = Grouping(GroupBy(selectors=(LabelSelector(match_labels={"0": "u"}),)))
    obj = an({"0": "u"}, owner="u")

    groups = {grouping.groups_of(obj)[-1] for grouping in (labels, selectors, OWNER)}

    assert len(groups) == 3


def test_a_group_is_named_in_words() -> None:
    grouping = Grouping(
        GroupBy(labels=("app",), selectors=(LabelSelector(match_labels=WEB),), owner=True)
    )

    assert grouping.in_words(an(WEB, owner="u")) == ("label app=web", "selector 0", "owner u")
