"""The one real control plane, and the one running sharder, that the tests share."""

import asyncio
from collections.abc import Callable, Iterator, Mapping

import pytest
import uvloop

from hack.control_plane import ControlPlane
from hack.playground import CRD, SYSTEM
from tests.support.audit import Audit
from tests.support.service import Service

LAST = "test_rights_used.py"
"""Judges what all tests before it have made the sharder do."""


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Let the webhook's server run on the event loop of the service."""
    if item.path.name in {"test_webhook_server.py", "test_connections.py"}:
        return {"uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and "service" in item.fixturenames:
            item.add_marker("service")
    items.sort(key=lambda item: item.path.name == LAST)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """With the CRD; it is never cleaned: give objects unique names, do not wait for removal."""
    with ControlPlane() as plane:
        plane.apply(CRD)
        plane.kubectl("wait", "--for=condition=Established", "-f", str(CRD))
        yield plane


@pytest.fixture(scope="session")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """What the sharder of `service` asks the API server for."""
    return Audit(tmp_path_factory.mktemp("audit"), f"system:serviceaccount:{SYSTEM}:sharder")


@pytest.fixture(scope="session")
def service(audit: Audit) -> Iterator[Service]:
    """On a control plane of its own: other tests install and remove the CRD."""
    # Making a ring the owner of an object needs a right, which the chart grants.
    plugin = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
    with ControlPlane(apiserver_flags=[*audit.flags, plugin]) as plane:
        service = Service(plane)
        service.start()
        asyncio.run(service.until_ready())
        yield service
