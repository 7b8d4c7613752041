"""Facts about `sharder.core.admission.decide`: (a) to (f) of docs/protocol.md, "Admission"."""

import pytest
from msgspec import structs

from sharder.core.admission.acknowledgement import Writer
from sharder.core.admission.answers import PASS, Decision
from sharder.core.api.meta import LabelSelector, PartialObject
from sharder.core.api.ring import ControllerRing
from sharder.core.leases.membership import Members, Standing
from sharder.core.names import LOAD_ANNOTATION, POOL_LABEL, GroupResource
from sharder.core.ring.build import build
from sharder.core.ring.snapshot import RingSnapshot
from tests.support.admissions import (
    OTHER_POD,
    OWNERS_ACCOUNT,
    OWNERS_POD,
    PERSON,
    RING,
    SHARDER,
    STRANGE_ACCOUNT,
    TO_B,
    create,
    from_manifest,
    stored,
    update,
)
from tests.support.values import (
    CONFIGMAPS,
    DRAIN,
    NEXT,
    OWNER,
    SECRETS,
    WIDGETS,
    A,
    B,
    C,
    available,
    members,
    named,
    obj,
    ring,
    snapshot,
)

THE_SHARDER = Writer(username=SHARDER)


# What is not ours


def test_a_resource_that_the_ring_does_not_name_passes_with_a_warning() -> None:
    decision = create(obj(), of=GroupResource("apps", "deployments"))

    assert decision == Decision(
        outcome="unknown_resource",
        warning="ControllerRing demo has no resource deployments.apps",
    )


def test_an_update_of_an_object_without_metadata_passes_as_it_is() -> None:
    decision = update(obj(owner=A), PartialObject(kind="Widget"))

    assert (decision.outcome, decision.operations) == ("incomplete", ())


@pytest.mark.parametrize("labels", [{OWNER: "a b"}, {OWNER: A, DRAIN: "a b"}])
def test_labels_that_no_server_would_take_are_not_put_back(labels: dict[str, str]) -> None:
    assert update(obj(labels=labels), obj(owner=labels[OWNER])) == PASS


# (a) the sharder itself


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (obj(name=TO_B, owner=A), obj(name=TO_B, owner=C)),
        (obj(name=TO_B, owner=A), obj(name=TO_B, owner=A, drain="true")),
        (obj(name=TO_B, owner=A, drain="true"), obj(name=TO_B, owner=A)),
        (obj(name=TO_B), obj(name=TO_B, owner=A)),
    ],
    ids=["assigns", "drains", "withdraws a drain", "assigns what has no owner"],
)
def test_what_the_sharder_writes_stands(old: PartialObject, new: PartialObject) -> None:
    assert update(old, new, writer=THE_SHARDER) == PASS


# (c) a client without the right changes the owner


@pytest.mark.parametrize("of", [WIDGETS, SECRETS, CONFIGMAPS])
@pytest.mark.parametrize("asked", [None, B, C, "", "no such shard"])
def test_a_changed_owner_is_put_back(of: GroupResource, asked: str | None) -> None:
    old = obj(of, owner=A, controlled_by="s")
    new = obj(of, owner=asked, controlled_by="s")

    decision = update(old, new, of=of)

    assert decision.outcome == "restored"
    assert decision.assigned is None
    assert stored(new, decision).labels == {OWNER: A}


# (d) the acknowledgement


@pytest.mark.parametrize(
    "writer",
    [
        OWNERS_POD,
        OWNERS_ACCOUNT,
        PERSON,
        Writer(username="system:node:n1"),
        Writer(username="x:system:serviceaccount:kube-system:gitops"),
    ],
    ids=[
        "the owner's pod",
        "a ServiceAccount of the Lease's namespace",
        "a user",
        "a node",
        "a user with a misleading name",
    ],
)
@pytest.mark.parametrize("value", ["true", ""])
def test_an_object_that_its_shard_releases_is_assigned(writer: Writer, value: str) -> None:
    old, new = obj(name=TO_B, owner=A, drain=value), obj(name=TO_B)

    decision = update(old, new, writer=writer)

    assert decision.assigned == B
    assert stored(new, decision).labels == {OWNER: B}


SAME = obj(name=TO_B, labels={"x": "1"})


@pytest.mark.parametrize(
    ("writer", "new", "changed", "why"),
    [
        (OTHER_POD, SAME, "", f"the writer cannot be the shard {A}"),
        (STRANGE_ACCOUNT, SAME, "", f"the writer cannot be the shard {A}"),
        (OWNERS_ACCOUNT, from_manifest(SAME), "", "the update replaces the object"),
        (PERSON, from_manifest(SAME), "", "the update replaces the object"),
        (OWNERS_ACCOUNT, SAME, "data", "the update changes data"),
        (PERSON, SAME, "spec", "the update changes spec"),
        (
            OWNERS_ACCOUNT,
            obj(name=TO_B, labels={"x": "2"}),
            "",
            "the update changes other labels, such as x",
        ),
        (
            PERSON,
            obj(name=TO_B, labels={"x": "1"}, annotations={"y": "1"}),
            "",
            "the update changes annotations, such as y",
        ),
    ],
)
def test_no_other_write_that_drops_the_labels_is_taken_for_a_release(
    writer: Writer, new: PartialObject, changed: str, why: str
) -> None:
    old = obj(name=TO_B, owner=A, drain="true", labels={"x": "1"})

    decision = update(old, new, writer=writer, changed=changed)

    labels = stored(new, decision).labels or {}
    assert (labels[OWNER], labels[DRAIN]) == (A, "true")
    assert decision.warning == (
        f"ring demo restored its labels: {why}, so it is no acknowledgement; the object stays on "
        f"{A}; a shard acknowledges by a patch of these two"
    )


USE_PIN = f'ring demo restored its labels; the object stays on {A}; to move it, use "sharder pin"'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (obj(owner=A), obj(owner=B)),
        (obj(owner=A), obj()),
        (obj(owner=A), obj(owner=A, drain="true")),
        (obj(owner=A, drain="true"), obj(owner=A)),
        (obj(owner=A, drain="true"), obj(drain="true")),
        (obj(owner=A, drain="true"), obj(owner=C)),
    ],
    ids=["changed", "removed", "drain added", "drain removed", "half a release", "given away"],
)
def test_a_person_whose_change_of_labels_is_undone_is_told_how_to_move_the_object(
    old: PartialObject, new: PartialObject
) -> None:
    assert update(old, new).warning == USE_PIN


@pytest.mark.parametrize(
    ("writer", "new"),
    [
        (PERSON, from_manifest(obj())),
        (OWNERS_ACCOUNT, from_manifest(obj())),
        (OWNERS_ACCOUNT, obj()),
    ],
)
def test_a_client_that_means_no_label_is_not_warned(writer: Writer, new: PartialObject) -> None:
    decision = update(obj(owner=A), new, writer=writer)

    assert (decision.outcome, decision.warning) == ("restored", "")


def test_no_service_account_but_its_own_pod_speaks_for_a_shard_without_lease() -> None:
    by = snapshot(members({B: Standing.AVAILABLE}, stranger=Standing.MISSING))
    old, new = obj(name=TO_B, owner=A, drain="true"), obj(name=TO_B)

    assert update(old, new, writer=OWNERS_ACCOUNT, by=by).outcome == "restored"
    assert update(old, new, writer=OWNERS_POD, by=by).assigned == B


@pytest.mark.parametrize("written", [A, None], ids=["rewritten", "removed"])
def test_the_client_that_releases_an_object_does_not_choose_its_shard(written: str | None) -> None:
    by = snapshot(available(A, B, C))
    name = named(WIDGETS, B, by)
    old = obj(name=name, owner=A, drain="true", annotations={NEXT: C})
    new = obj(name=name, annotations=None if written is None else {NEXT: written})

    assert update(old, new, writer=OWNERS_POD, by=by).assigned == C


# An update of an object without owner


@pytest.mark.parametrize("of", [WIDGETS, SECRETS])
def test_no_client_gives_an_owner_to_an_object_without_one(of: GroupResource) -> None:
    name = named(of, B, RING)
    new = obj(of, name, owner=A, drain="true")

    assert stored(new, update(obj(of, name), new, of=of)).labels == {}


def test_an_object_without_controller_gets_no_owner() -> None:
    old, new = obj(CONFIGMAPS), obj(CONFIGMAPS, owner=A)

    assert stored(new, update(old, new, of=CONFIGMAPS)).labels == {}


# Objects that come into the scope of an objectSelector, or leave it

BLUE = {"team": "blue"}


def selecting(of: Members | None = None) -> RingSnapshot:
    """The ring over blue objects alone."""
    spec = structs.replace(ring().spec, object_selector=LabelSelector(match_labels=BLUE))
    return build(
        ControllerRing(metadata=ring().metadata, spec=spec),
        members=of or available(A, B),
        namespaces=frozenset({"default"}),
    )


def test_an_object_that_comes_into_scope_with_an_owner_that_is_gone_is_assigned() -> None:
    old, new = obj(name=TO_B, owner=C), obj(name=TO_B, owner=C, labels=BLUE)

    assert update(old, new, by=selecting()).assigned == B
    left = update(
        obj(SECRETS, owner=C), obj(SECRETS, owner=C, labels=BLUE), of=SECRETS, by=selecting()
    )
    assert left.outcome == "left_to_leader"


def test_an_object_without_owner_that_leaves_the_scope_is_left_alone() -> None:
    old, new = obj(name=TO_B, labels=BLUE), obj(name=TO_B)

    assert update(old, new, by=selecting()) == Decision(outcome="out_of_scope")


# Invalid annotations and labels of an object


def test_a_missing_shard_and_an_invalid_annotation_cause_one_warning_each() -> None:
    new = obj(annotations={LOAD_ANNOTATION: "x"}, labels={POOL_LABEL: "none"})

    decision = create(new)

    assert decision.outcome == "no_shard"
    assert LOAD_ANNOTATION in decision.warning
    assert "; no shard can take the object: " in decision.warning


@pytest.mark.parametrize("resource", [WIDGETS, SECRETS])
def test_who_replaces_a_draining_object_does_not_change_where_it_goes(
    resource: GroupResource,
) -> None:
    old = obj(resource, owner=A, drain="true", annotations={NEXT: B, "x": "1"})
    new = obj(resource, annotations={"x": "2"})

    decision = update(old, new, of=resource, writer=STRANGE_ACCOUNT)

    left = stored(new, decision)
    assert left.labels == {OWNER: A, DRAIN: "true"}
    assert left.annotations == {NEXT: B, "x": "2"}


def test_a_shard_that_replaces_an_object_as_it_releases_it_does_not_change_where_it_goes() -> None:
    old = obj(SECRETS, owner=A, drain="true", annotations={NEXT: B})
    new = obj(SECRETS)

    decision = update(old, new, of=SECRETS, writer=OWNERS_POD)

    assert decision.outcome == "left_to_leader"
    left = stored(new, decision)
    assert (left.labels, left.annotations) == (None, {NEXT: B})
