"""The manifests written for timebertt/kubernetes-controller-sharding v0.13, and their fields."""

from collections.abc import Iterator, Mapping

import yaml

from hack.playground import ROOT

FOLDER = ROOT / "tests/compat/manifests"
RINGS = FOLDER / "rings.yaml"
SERVICE, URL = CONFIGS = (FOLDER / "config-service.yaml", FOLDER / "config-url.yaml")
MAPS = {"matchLabels", "annotations"}
"""Fields whose keys are free."""


def fields_of(tree: object, path: str = "") -> Iterator[str]:
    """Yield the path of every field with a value; the items of a list are one."""
    if isinstance(tree, Mapping) and path.rpartition(".")[2] not in MAPS:
        for key, value in tree.items():
            yield from fields_of(value, f"{path}.{key}" if path else key)
    elif isinstance(tree, list) and isinstance(tree[0], Mapping):
        for item in tree:
            yield from fields_of(item, path)
    else:
        yield path


def ring_specs() -> dict[str, dict[str, object]]:
    """Return the spec of each ring by name."""
    rings = yaml.safe_load_all(RINGS.read_text())
    return {ring["metadata"]["name"]: ring["spec"] for ring in rings}
