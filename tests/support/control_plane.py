"""Fixtures of the one real control plane that a test session shares.

It runs no controllers and is never cleaned: give objects unique names, do not wait for removal.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.control_plane import ControlPlane


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """Started by the first test that asks; programs that cannot be had fail it, never skip it."""
    with ControlPlane() as plane:
        yield plane


@pytest.fixture(scope="session")
def admin_kubeconfig(control_plane: ControlPlane) -> Path:
    return control_plane.admin_kubeconfig
