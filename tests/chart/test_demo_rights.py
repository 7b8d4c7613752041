"""The sharder of the demo has exactly the rights that the chart gives."""

from hack.playground import MANIFESTS
from tests.chart.rendering import Helm, Rule, decode_manifests

RESOURCES = [{"resource": "secrets", "controlledResources": [{"resource": "configmaps"}]}]
VALUES = {"rings": [{"name": "checksum", "resources": RESOURCES}]}


def test_the_demo_gives_the_sharder_the_rights_of_the_chart(helm: Helm) -> None:
    assert _rights((MANIFESTS / "sharder.yaml").read_text()) == _rights(helm.template(VALUES))


def _rights(manifests: str) -> dict[tuple[str, str, str], set[Rule]]:
    """Return the rules of each Role and ClusterRole by kind, namespace and name."""
    return {
        (each.kind, each.metadata.namespace, each.metadata.name): set(each.rules)
        for each in decode_manifests(manifests)
        if each.kind in {"Role", "ClusterRole"}
    }
