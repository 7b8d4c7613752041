"""The chart as users install it, with all that happens to Deployments while users write."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from hack import binaries
from hack.control_plane import ControlPlane
from hack.playground import SYSTEM
from tests.e2e.writers import WriteLog
from tests.history.judging import Verdict, judge
from tests.history.works import works_in
from tests.long.installed_chart import FILES, INSTALLED, OBJECTS, Story, plane_of, telling

LONGEST_SECONDS: Final = 2 * 15 + 4.0
"""So long objects may be without a working shard, by the default duration of Leases."""
NOTICED_SECONDS: Final = 3.0
"""So long after its pod has begun to stop a Service can still lead to it: the EndpointSlice, and
the proxy of each node."""
PROMPT_SECONDS: Final = 2.5
"""A create that waited for the webhook would take its timeout, 5 s."""
DELETED: Final = {
    "apiservice.apiregistration.k8s.io/v1alpha1.sharding.timebertt.dev",
    "customresourcedefinition.apiextensions.k8s.io/controllerrings.sharding.timebertt.dev",
    "validatingwebhookconfiguration.admissionregistration.k8s.io/"
    "controllerrings.sharding.timebertt.dev",
    *(f"controllerring.sharding.timebertt.dev/{name}" for name in ("checksum", "kept")),
    *(
        f"mutatingwebhookconfiguration.admissionregistration.k8s.io/controllerring-{name}"
        for name in ("checksum", "kept")
    ),
}
"""What the commands of the notes delete, and `helm uninstall` does not."""
LEFT: Final = {"lease.coordination.k8s.io/sharder", "secret/sharder-certificates"}
"""What outlives all, in the namespace of the release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it."""

    story: Story
    verdict: Verdict
    """Until the release was uninstalled; likewise the next."""
    without_owner: list[str]
    """Objects that no shard owned when they were admitted."""
    calls: tuple[float, float]
    kept: set[str]
    """What has come with the release, and `helm uninstall` has left."""
    left: set[str]
    """The same after the clean-up."""


@pytest.fixture(scope="module", params=["helm", "helm3"])
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    log = WriteLog(tmp_path_factory.mktemp("audit"))
    with plane_of(log) as plane:
        return asyncio.run(play(plane, getattr(binaries, request.param)(), log))


async def play(plane: ControlPlane, helm: Path, log: WriteLog) -> Outcome:
    async with telling(plane, helm) as (story, trace):
        before = await story.there()
        await story.release(INSTALLED, FILES)
        await story.refuse()
        await story.install()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(story.watch())
            await story.change()
            watching.cancel()
        calls, works = await story.calls(), list(works_in(plane.directory / "logs"))
        seen = trace.trace(refused=story.users.failed, works=works, sent=list(log.sent()))
        notes = await story.type(f"HELM get notes sharder -n {SYSTEM} | grep 'kubectl delete'")
        await story.uninstall()
        kept = await story.there() - before
        await story.type(*notes.splitlines())
        left = await story.there() - before
    first = {write.uid: write for write in reversed(seen.writes)}
    return Outcome(
        story=story,
        verdict=judge(seen),
        without_owner=[write.name for write in first.values() if not write.owner],
        calls=calls,
        kept=kept,
        left=left,
    )


def test_rings_certificates_and_trust_outlive_the_release(outcome: Outcome) -> None:
    installed, uninstalled = outcome.story.shown
    assert uninstalled == installed


def test_values_that_helm_would_ignore_are_refused_by_name(outcome: Outcome) -> None:
    names = ("shardedResources", "rings: kept has create, which needs helm 4")
    for name, said in zip(names, outcome.story.refusals, strict=False):
        assert name in said


def test_after_uninstalling_creates_take_no_longer(outcome: Outcome) -> None:
    assert max(outcome.story.creates) < PROMPT_SECONDS


def test_nothing_of_what_must_never_happen_has_happened(outcome: Outcome) -> None:
    assert outcome.verdict.moves > OBJECTS
    assert outcome.verdict.problems(LONGEST_SECONDS) == []


def test_no_object_is_admitted_without_owner(outcome: Outcome) -> None:
    called, given_up = outcome.calls
    assert called > OBJECTS
    assert (given_up, outcome.without_owner) == (0, [])


def test_a_stopping_replica_serves_until_any_service_has_noticed(outcome: Outcome) -> None:
    assert len(outcome.story.served_on) >= 2 + 2 + 2
    assert min(outcome.story.served_on.values()) > NOTICED_SECONDS


def test_no_condition_goes_while_the_leader_is_replaced(outcome: Outcome) -> None:
    assert [len(conditions) for conditions in outcome.story.covered] == [1, 1]


def test_no_request_is_refused_not_even_while_the_release_goes(outcome: Outcome) -> None:
    assert [each.what for each in outcome.story.users.failed] == []


def test_what_stays_is_what_the_documents_say(outcome: Outcome) -> None:
    assert outcome.kept - outcome.left == DELETED
    assert outcome.left == LEFT
