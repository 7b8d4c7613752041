"""Facts about the configuration by which the API server asks about ControllerRings."""

import logging
from asyncio import TaskGroup
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from sharder.controllers.ring_controller import OURS
from sharder.controllers.validating_webhook import (
    POLL_SECONDS,
    RETRY_SECONDS,
    ValidationKeeper,
    validation_of,
)
from sharder.core.api.meta import Json
from sharder.core.api.selector import LabelSelector
from sharder.core.errors import ApiError, Forbidden, NotFound, Unavailable
from sharder.core.names import ObjectRef
from sharder.core.webhook_configuration import Endpoint, Registration
from sharder.sdk.testing.fake_clock import FakeClock
from tests.support.fakes import FakeWebhookConfigurations
from tests.support.rules import matches

NAME = "controllerrings.sharding.timebertt.dev"
PERIOD = 30.0
REGISTRATION = Registration(
    endpoint=Endpoint(service_namespace="own", service_name="webhook", ca_bundle="Q0E="),
    default_namespaces=LabelSelector(),
    excluded=frozenset(),
    sharders=frozenset(),
    annotations={"cert-manager.io/inject-ca-from": "a/b"},
)


class Bench:
    """A keeper, and what it writes to."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.configurations = FakeWebhookConfigurations()
        self.registration = REGISTRATION
        self.leads = True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        keeper = ValidationKeeper(
            configurations=self.configurations,
            registration=lambda: self.registration,
            leads=lambda: self.leads,
            clock=self.clock,
            period=PERIOD,
        )
        async with TaskGroup() as group:
            task = group.create_task(keeper.keep())
            await self.clock.advance(0)
            try:
                yield
            finally:
                task.cancel()

    async def spoil(self) -> None:
        """Remove the label, as another client."""
        body: Json = {"metadata": {"labels": None}}
        await self.configurations.store.patch(ObjectRef("", NAME), body)

    async def is_whole(self) -> bool:
        found = await self.configurations.store.get(ObjectRef("", NAME))
        return found.metadata.labels is not None


def test_it_names_what_is_asked_about_and_never_keeps_a_ring_from_being_written() -> None:
    assert validation_of(REGISTRATION) == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {
            "name": NAME,
            "labels": {"app.kubernetes.io/name": "controller-sharding"},
            "annotations": {"cert-manager.io/inject-ca-from": "a/b"},
        },
        "webhooks": [
            {
                "name": NAME,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "service": {
                        "namespace": "own",
                        "name": "webhook",
                        "path": "/webhooks/validate/controllerring",
                        "port": 443,
                    },
                    "caBundle": "Q0E=",
                },
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "rules": [
                    {
                        "apiGroups": ["sharding.timebertt.dev"],
                        "apiVersions": ["v1alpha1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["controllerrings"],
                        "scope": "Cluster",
                    }
                ],
                "sideEffects": "None",
                "timeoutSeconds": 5,
            }
        ],
    }


def test_the_selector_of_ring_configurations_does_not_match_it() -> None:
    assert not matches(OURS, {"app.kubernetes.io/name": "controller-sharding"})


async def test_it_is_applied_at_once() -> None:
    bench = Bench()

    async with bench.running():
        assert list(bench.configurations.bodies) == [NAME]


async def test_what_others_wrote_is_repaired_once_per_period() -> None:
    bench = Bench()

    async with bench.running():
        await bench.spoil()
        await bench.clock.advance(PERIOD - POLL_SECONDS)
        spoilt = not await bench.is_whole()
        await bench.clock.advance(POLL_SECONDS)

        assert spoilt
        assert await bench.is_whole()


async def test_it_is_not_applied_again_while_no_client_writes_it() -> None:
    bench = Bench()

    async with bench.running():
        await bench.clock.advance(20 * PERIOD)

        assert bench.configurations.applies == 1


@pytest.mark.parametrize("error", [NotFound("it is gone"), Forbidden("get is forbidden")])
async def test_a_configuration_that_is_gone_or_cannot_be_read_is_applied(error: ApiError) -> None:
    bench = Bench()

    async with bench.running():
        bench.configurations.store.fail(error)
        await bench.clock.advance(PERIOD)

        assert bench.configurations.applies == 2


async def test_a_new_authority_is_reported_at_the_next_look() -> None:
    bench = Bench()

    async with bench.running():
        endpoint = replace(REGISTRATION.endpoint, ca_bundle="bmV3")
        bench.registration = replace(REGISTRATION, endpoint=endpoint)
        await bench.clock.advance(POLL_SECONDS)

        assert bench.configurations.bodies[NAME] == validation_of(bench.registration)


async def test_a_replica_that_lost_leadership_writes_nothing() -> None:
    bench = Bench()
    bench.leads = False

    async with bench.running():
        await bench.clock.advance(PERIOD)

        assert bench.configurations.bodies == {}


async def test_a_missing_right_is_reported_once_and_used_when_it_is_granted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench()
    bench.configurations.store.fail(*[Forbidden("cannot patch: grant it")] * 3)

    async with bench.running():
        await bench.clock.advance(2 * RETRY_SECONDS)
        missing = dict(bench.configurations.bodies)
        await bench.clock.advance(RETRY_SECONDS)

        assert missing == {}
        assert list(bench.configurations.bodies) == [NAME]
    doing = f"apply the ValidatingWebhookConfiguration {NAME}"
    assert [record.getMessage() for record in caplog.records] == [
        f"cannot {doing}: cannot patch: grant it",
        f"recovered, can {doing} again",
    ]


async def test_an_outage_is_waited_for() -> None:
    bench = Bench()
    bench.configurations.store.fail(Unavailable("busy"))

    async with bench.running():
        assert bench.configurations.bodies == {}
        await bench.clock.advance(RETRY_SECONDS)

        assert list(bench.configurations.bodies) == [NAME]
