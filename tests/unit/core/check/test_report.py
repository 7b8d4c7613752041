"""Facts about `sharder.core.check.report`: every check is made, and none without its input."""

from dataclasses import replace
from datetime import timedelta

import msgspec

from sharder.core.api.meta import PartialObject
from sharder.core.api.ring import Condition, RingStatus, unreadable_ring
from sharder.core.check.fence import FenceFacts
from sharder.core.check.finding import Level, Unread
from sharder.core.check.installation import Certificates
from sharder.core.check.report import Facts, RingFacts, report
from sharder.core.check.webhook import Answer, Configuration
from sharder.core.fence.probe import NoFence
from sharder.core.names import ObjectRef
from sharder.core.preview.observe import members_of
from tests.support.values import DEMO, NOW, A, lease, ring
from tests.unit.core.check.installed import deployment, released

HERE = "sharding-system"
UNREAD = Unread("forbidden")


def healthy() -> Facts:
    ready = Condition(type="Ready", status="True")
    status = RingStatus(observed_generation=1, conditions=(ready,))
    working = msgspec.structs.replace(ring(), status=status)
    return Facts(
        now=NOW,
        skew=timedelta(),
        schema=released(),
        user="sharder",
        asked=37,
        denied={},
        deployments=(deployment(wanted=1, ready=1),),
        leader_ref=ObjectRef(HERE, "sharder"),
        leader=lease("sharder"),
        certificates=Certificates(
            secret=ObjectRef(HERE, "certificates"), foreign=False, problem=None, certificates=()
        ),
        rings=(
            RingFacts(
                ring=working,
                members=members_of(working, [lease(A)]),
                configuration=Configuration(has_ca=True, trusts=True),
                answer=Answer(request="a create", owner=A),
            ),
        ),
        known={DEMO: working},
        leases=(lease(A),),
    )


def test_a_ring_with_a_fence_has_a_line_more() -> None:
    facts = healthy()
    assert not isinstance(facts.rings, Unread)
    fenced = replace(facts.rings[0], fence=FenceFacts(proof=NoFence(), users={}))

    found = report(replace(facts, rings=(fenced,)))

    assert (found.findings[-1].check, found.findings[-1].ring) == ("fence", DEMO)
    assert found.warned == 1


def test_rings_that_cannot_be_read_fail() -> None:
    found = report(replace(healthy(), rings=UNREAD, known={}))

    assert (found.failed, found.findings[-1].level) == (1, Level.FAIL)


def test_a_cluster_without_rings_is_a_warning() -> None:
    found = report(replace(healthy(), rings=(), known={}, leases=()))

    assert (found.failed, found.warned) == (0, 1)


def test_leases_that_cannot_be_read_are_a_warning_and_not_a_ring_without_shards() -> None:
    facts = healthy()
    assert not isinstance(facts.rings, Unread)
    unread = tuple(replace(each, members=UNREAD) for each in facts.rings)

    found = report(replace(facts, rings=unread, leases=()))

    assert (found.failed, found.warned) == (0, 1)


def test_a_ring_that_cannot_be_decoded_is_not_checked_further() -> None:
    facts = healthy()
    assert not isinstance(facts.rings, Unread)
    broken = unreadable_ring(PartialObject(metadata=ring().metadata), "spec: wrong")
    unread = tuple(replace(each, ring=broken) for each in facts.rings)

    found = report(replace(facts, rings=unread, known={DEMO: broken}))

    assert [each.check for each in found.findings if each.ring == DEMO] == ["ring"]
