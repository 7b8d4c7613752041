"""Facts about `sharder.core.placement.demand`: which objects belong together."""

from sharder.core.api.meta import LabelSelector, ObjectMeta, OwnerReference, PartialObject
from sharder.core.api.ring import GroupBy, PlacementSpec
from sharder.core.placement.demand import MAX_TRAITS, Reader
from tests.support.values import DEMO

WEB = {"app": "web"}


def grouping_by(by: GroupBy) -> Reader:
    return Reader(DEMO, PlacementSpec(group_by=by))


LABELS = grouping_by(GroupBy(labels=("app", "tier")))
SELECTORS = grouping_by(
    GroupBy(
        selectors=(
            LabelSelector(match_labels={"app": "web"}),
            LabelSelector(match_labels={"tier": "front"}),
        )
    )
)
OWNER = grouping_by(GroupBy(owner=True))


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


def counts_for(grouping: Reader, other: PartialObject, placed: PartialObject) -> bool:
    """Whether `other` is a member of the group that `placed` looks for."""
    return grouping.groups_of(placed)[-1] in grouping.groups_of(other)


def test_objects_of_two_namespaces_never_belong_together() -> None:
    for grouping in (LABELS, SELECTORS):
        assert not counts_for(grouping, an(WEB, namespace="other"), an(WEB))
    assert not counts_for(OWNER, an(owner="u", namespace="other"), an(owner="u"))


def test_traits_that_no_schema_has_bounded_make_no_groups_without_end() -> None:
    keys = tuple(f"key-{number}" for number in range(30))
    first, beyond = keys[:MAX_TRAITS], keys[: MAX_TRAITS + 1]
    grouping = grouping_by(GroupBy(labels=keys))

    assert len(grouping.groups_of(an(dict.fromkeys(keys, "x")))) == 2**MAX_TRAITS - 1
    assert counts_for(grouping, an(dict.fromkeys(first, "x")), an(dict.fromkeys(beyond, "x")))
