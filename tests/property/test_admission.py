"""The promises of `sharder.core.admission`: for any request, never a refusal, never a theft."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from sharder.core.admission.answers import Decision
from sharder.core.admission.decide import Review, decide
from sharder.core.api.meta import ObjectMeta
from sharder.core.keys import main_key
from sharder.core.leases.membership import Standing
from sharder.core.ring.snapshot import RingSnapshot, Role
from tests.property.strategies import SHARDER, acknowledgements, reviews, snapshots
from tests.support.json_patch import admitted
from tests.support.values import DRAIN, NEXT, OWNER

SHARDERS = frozenset({SHARDER})
creates = reviews(operation="CREATE")
# What is stored has a name.
updates = reviews(operation="UPDATE").filter(lambda of: of.obj.metadata.name) | acknowledgements()
requests = creates | updates


def stored(review: Review, decision: Decision) -> ObjectMeta:
    return admitted(review.obj, decision.operations).metadata


@given(requests, snapshots)
def test_only_available_shards_are_assigned_objects(
    review: Review, snapshot: RingSnapshot
) -> None:
    decision = decide(review, snapshot, SHARDERS)

    if decision.assigned is not None:
        assert snapshot.members.standing_of(decision.assigned) is Standing.AVAILABLE
        assert stored(review, decision).label(OWNER) == decision.assigned


@given(updates, snapshots)
def test_an_owner_loses_an_object_only_if_asked_or_by_the_sharder(
    review: Review, snapshot: RingSnapshot
) -> None:
    assert review.old is not None
    owner = review.old.metadata.label(OWNER)

    after = stored(review, decide(review, snapshot, SHARDERS))

    if snapshot.roles.get(review.resource) is None or review.writer.username in SHARDERS:
        return
    is_controlled = snapshot.roles[review.resource] is Role.CONTROLLED
    if is_controlled and review.obj.metadata.controller is None:
        assert not after.label(OWNER)
    elif owner and after.label(OWNER) != owner:
        assert review.old.metadata.has_label(DRAIN)
        assert not is_controlled
        assert not after.has_label(DRAIN)


@given(updates, snapshots)
def test_only_the_sharder_starts_or_ends_a_drain_of_an_object_that_stays(
    review: Review, snapshot: RingSnapshot
) -> None:
    assert review.old is not None
    before = review.old.metadata

    after = stored(review, decide(review, snapshot, SHARDERS))

    if snapshot.roles.get(review.resource) is None or review.writer.username in SHARDERS:
        return
    acknowledged = before.has_label(DRAIN) and not review.obj.metadata.label(OWNER)
    if before.label(OWNER) and after.label(OWNER) == before.label(OWNER) and not acknowledged:
        assert after.has_label(DRAIN) == before.has_label(DRAIN)
        assert after.label(DRAIN) == before.label(DRAIN)


@given(creates, snapshots)
def test_what_a_request_says_of_a_new_main_object_counts_for_nothing(
    review: Review, snapshot: RingSnapshot
) -> None:
    role = snapshot.roles.get(review.resource)
    if role is None or role is Role.CONTROLLED:
        return

    after = stored(review, decide(review, snapshot, SHARDERS))

    assert bool(after.name) == bool(review.obj.metadata.name or after.label(OWNER))
    key = main_key(structs.replace(review.obj, metadata=after)) if after.name else None
    assert after.label(OWNER) == (snapshot.wanted(key) or "")
    assert not after.has_label(DRAIN)
    assert NEXT not in (after.annotations or {})


@given(creates, snapshots, st.text(max_size=8))
def test_the_name_of_the_user_decides_nothing_about_a_new_object(
    review: Review, snapshot: RingSnapshot, username: str
) -> None:
    writer = structs.replace(review.writer, username=username)
    other = structs.replace(review, writer=writer)

    assert decide(review, snapshot, SHARDERS) == decide(other, snapshot, SHARDERS)
