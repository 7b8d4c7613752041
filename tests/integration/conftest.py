"""The one running sharder that the tests of admission share."""

import asyncio
from collections.abc import Iterator

import pytest

from hack.control_plane import ControlPlane
from tests.support.service import Service


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    """On a control plane of its own: other tests install and remove the CRD."""
    with ControlPlane() as plane:
        service = Service(plane)
        service.start()
        asyncio.run(service.until_ready())
        yield service
