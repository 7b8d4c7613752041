"""The one running sharder that the tests of admission share."""

import asyncio
from collections.abc import Iterator

import pytest

from hack.control_plane import ControlPlane
from hack.playground import SYSTEM
from tests.support.audit import Audit
from tests.support.service import Service

LAST = "test_rights_used.py"
"""Judges what all tests before it have made the sharder do."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and "service" in item.fixturenames:
            item.add_marker("service")
    items.sort(key=lambda item: item.path.name == LAST)


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
