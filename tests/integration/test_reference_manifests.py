"""Rings written for timebertt/kubernetes-controller-sharding v0.13 are taken unchanged.

`tests/compat/manifests` has rings that use every field of the reference's API, v1alpha1.
"""

import json
from collections.abc import Iterator

import pytest

from hack.control_plane import ControlPlane
from hack.playground import CRD
from tests.support.manifests import RINGS, fields_of, ring_specs


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """With the CRD alone."""
    with ControlPlane() as plane:
        plane.apply(CRD)
        plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
        yield plane


def test_the_api_server_takes_the_rings_and_keeps_every_field(plane: ControlPlane) -> None:
    plane.kubectl("apply", "--server-side", "--validate=strict", "-f", str(RINGS))

    found = json.loads(plane.kubectl("get", "controllerrings", "-o", "json"))["items"]
    kept = {ring["metadata"]["name"]: {*fields_of(ring["spec"])} for ring in found}

    # More may be there: defaults, also of fields that are ours.
    assert {name: {*fields_of(spec)} - kept[name] for name, spec in ring_specs().items()} == {
        name: set() for name in ring_specs()
    }
