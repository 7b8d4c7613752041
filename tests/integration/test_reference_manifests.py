"""Rings written for timebertt/kubernetes-controller-sharding v0.13 are taken unchanged.

`tests/compat/manifests` has rings that use every field of the reference's API, v1alpha1.
"""

import json

from hack.control_plane import ControlPlane
from tests.support.manifests import RINGS, fields_of, ring_specs


def test_the_api_server_takes_the_rings_and_keeps_every_field(control_plane: ControlPlane) -> None:
    control_plane.kubectl("apply", "--server-side", "--validate=strict", "-f", str(RINGS))

    found = json.loads(control_plane.kubectl("get", "controllerrings", "-o", "json"))["items"]
    kept = {ring["metadata"]["name"]: {*fields_of(ring["spec"])} for ring in found}

    # More may be there: defaults, also of fields that are ours.
    assert {name: {*fields_of(spec)} - kept[name] for name, spec in ring_specs().items()} == {
        name: set() for name in ring_specs()
    }
