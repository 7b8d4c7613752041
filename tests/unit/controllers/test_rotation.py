"""How the leader replaces an authority: what it waits for, and who goes on after it."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from sharder.controllers.ca_trust import trusts
from sharder.controllers.certificates import POLL_SECONDS, Certificates
from sharder.core.errors import Forbidden, Unavailable
from sharder.core.names import ObjectRef
from sharder.tls import AUTHORITY_VALIDITY, CertificateBundle, Phase, Request, fingerprints
from tests.support.certificates import OVERLAP, Scene

OTHER_RING = ObjectRef("", "controllerring-other")


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def started(scene: Scene) -> tuple[Certificates, CertificateBundle]:
    """Return a leader whose certificates are published."""
    leader = scene.replica(leads=True)
    bundle = await leader.ensure()
    await scene.publish(bundle)
    return leader, bundle


async def introducing(scene: Scene) -> tuple[Certificates, CertificateBundle]:
    leader, _ = await started(scene)
    await scene.ask(Request.AUTHORITY)
    return leader, await leader.ensure()


async def pass_overlap(
    scene: Scene, *look: Callable[[], Awaitable[CertificateBundle]]
) -> list[CertificateBundle]:
    """Let the overlap pass, with a look before and after; return what the last looks found."""
    for each in look:
        await each()
    await scene.clock.advance(OVERLAP.total_seconds())
    return [await each() for each in look]


@pytest.mark.parametrize("what", Request)
async def test_a_request_is_carried_out_once(scene: Scene, what: Request) -> None:
    leader, before = await started(scene)
    await scene.ask(what)

    after = await leader.ensure()

    assert after != before
    assert await scene.asked() == ""
    assert await leader.ensure() == after


async def test_an_unknown_request_changes_nothing(scene: Scene) -> None:
    leader, before = await started(scene)
    await scene.ask("everything")

    assert await leader.ensure() == before


async def test_a_renewal_before_the_end_leaves_a_request_for_an_authority(scene: Scene) -> None:
    _, before = await started(scene)
    await scene.ask(Request.AUTHORITY)
    await scene.clock.advance(timedelta(days=61).total_seconds())

    after = await scene.replica().ensure()

    assert after.certificate != before.certificate
    assert await scene.asked() == Request.AUTHORITY


async def test_only_the_leader_replaces_an_authority(scene: Scene) -> None:
    _, before = await started(scene)
    await scene.ask(Request.AUTHORITY)

    assert await scene.replica().ensure() == before


async def test_an_authority_that_ends_soon_is_replaced_in_good_time(scene: Scene) -> None:
    leader, _ = await started(scene)
    await scene.clock.advance((AUTHORITY_VALIDITY - timedelta(days=89)).total_seconds())
    await leader.ensure()

    await leader.ensure()

    assert await scene.phase() is Phase.INTRODUCING


async def test_the_new_authority_is_not_used_before_all_trust_it(scene: Scene) -> None:
    leader, bundle = await introducing(scene)
    await scene.publish(bundle, OTHER_RING)

    waiting = await pass_overlap(scene, leader.ensure)
    await scene.publish(bundle)
    at_once = await leader.ensure()
    (switched,) = await pass_overlap(scene, leader.ensure)

    assert [*waiting, at_once] == [bundle, bundle]
    assert await scene.phase() is Phase.RETIRING
    assert switched.certificate != bundle.certificate


async def test_the_old_authority_is_trusted_until_all_have_seen_the_new_certificate(
    scene: Scene,
) -> None:
    leader, bundle = await introducing(scene)
    await scene.publish(bundle)
    (switched,) = await pass_overlap(scene, leader.ensure)

    await leader.ensure()
    await scene.clock.advance(OVERLAP.total_seconds() - POLL_SECONDS)
    waiting = await leader.ensure()
    await scene.clock.advance(POLL_SECONDS)
    final = await leader.ensure()

    assert waiting == switched
    assert fingerprints(final.ca) == fingerprints(bundle.ca) - fingerprints(
        first_authority(bundle)
    )
    assert await scene.phase() is Phase.STABLE


def first_authority(bundle: CertificateBundle) -> bytes:
    """Return the authority that was there first."""
    return bundle.ca[: bundle.ca.index(b"-----END") + len("-----END CERTIFICATE-----\n")]


async def test_another_leader_goes_on_where_one_was_killed(scene: Scene) -> None:
    _, bundle = await introducing(scene)
    await scene.publish(bundle)

    second = scene.replica(leads=True)
    await pass_overlap(scene, second.ensure)
    third = scene.replica(leads=True)
    (final,) = await pass_overlap(scene, third.ensure)

    assert await scene.phase() is Phase.STABLE
    assert fingerprints(final.ca) < fingerprints(bundle.ca)


async def test_a_new_leader_waits_the_full_time(scene: Scene) -> None:
    first, bundle = await introducing(scene)
    await scene.publish(bundle)
    await first.ensure()
    await scene.clock.advance(OVERLAP.total_seconds() - 1)
    second = scene.replica(leads=True)
    await second.ensure()

    await scene.clock.advance(2)

    assert await second.ensure() == bundle


async def test_time_without_the_new_ca_in_the_configurations_does_not_count(scene: Scene) -> None:
    leader, bundle = await introducing(scene)
    await scene.publish(bundle)
    await leader.ensure()
    await scene.trust("")
    await scene.clock.advance(OVERLAP.total_seconds())
    await leader.ensure()
    await scene.publish(bundle)

    assert await leader.ensure() == bundle


@pytest.mark.parametrize("ca_bundle", ["", "?", "bm9uc2Vuc2U="])
async def test_a_configuration_without_a_valid_ca_holds_a_rotation_up(
    scene: Scene, ca_bundle: str
) -> None:
    leader, bundle = await introducing(scene)
    await scene.trust(ca_bundle)

    assert await pass_overlap(scene, leader.ensure) == [bundle]


async def test_without_the_right_to_read_the_ca_bundles_no_authority_is_replaced(
    scene: Scene,
) -> None:
    leader, bundle = await introducing(scene)
    await scene.publish(bundle)
    scene.configurations.fail(*[Forbidden("cannot list")] * 2)

    assert await pass_overlap(scene, leader.ensure) == [bundle]


async def test_why_a_rotation_does_not_go_on_is_reported_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "sharder.controllers.ca_trust")
    leader, _ = await introducing(scene)

    await pass_overlap(scene, leader.ensure)

    assert [record.__dict__["why"] for record in caplog.records] == ["1 do not trust them yet"]


async def test_leaders_that_do_not_know_of_each_other_take_each_step_once(scene: Scene) -> None:
    one, bundle = await introducing(scene)
    await scene.publish(bundle)
    other = scene.replica(leads=True)

    first, second = await pass_overlap(scene, one.ensure, other.ensure)

    assert first == second == await scene.kept()


async def test_a_step_whose_answer_was_lost_is_not_taken_again(scene: Scene) -> None:
    leader, _ = await started(scene)
    await scene.ask(Request.AUTHORITY)
    scene.secrets.lose(Unavailable("no answer"))

    with pytest.raises(Unavailable):
        await leader.ensure()

    assert await leader.ensure() == await scene.kept()
    assert len(fingerprints((await scene.kept()).ca)) == 2


async def test_a_repair_during_a_rotation_restores_the_trusted_certificates(
    scene: Scene,
) -> None:
    leader, bundle = await introducing(scene)
    follower = scene.replica()
    await follower.ensure()
    await scene.publish(bundle)
    await pass_overlap(scene, leader.ensure)
    await scene.delete()

    repaired = await follower.ensure()

    assert trusts(await scene.trusted(), repaired)
    assert await leader.ensure() == repaired


async def test_a_rotation_ends_without_webhook_configurations(
    scene: Scene,
) -> None:
    leader = scene.replica(leads=True)
    first = await leader.ensure()
    await scene.ask(Request.AUTHORITY)
    await leader.ensure()

    await pass_overlap(scene, leader.ensure)
    (final,) = await pass_overlap(scene, leader.ensure)

    assert fingerprints(final.ca).isdisjoint(fingerprints(first.ca))
