"""What helm prints after the chart is installed."""

import pytest

from tests.chart.rendering import CHART, REQUIRED, Helm

RINGS = [{"name": "web", "resources": [{"group": "apps", "resource": "deployments"}]}]


def notes(helm: Helm, values: dict[str, object]) -> str:
    """Return the notes of the release `mine` in the namespace `ns`."""
    install = ("install", "mine", str(CHART), "-n", "ns", "--dry-run=client")
    return helm.run(*install, values={**REQUIRED, **values}).partition("\nNOTES:\n")[2]


@pytest.mark.parametrize(
    "command",
    [
        "kubectl -n ns rollout status deployment/mine-sharder",
        "kubectl apply -f my-ring.yaml",
        "kubectl get controllerrings",
        "kubectl label namespace ns pod-security.kubernetes.io/enforce=restricted",
    ],
)
def test_the_notes_have_the_next_commands(helm: Helm, command: str) -> None:
    said = [line.strip() for line in notes(helm, {}).splitlines()]

    assert command in said


def test_the_notes_warn_while_nothing_may_be_sharded(helm: Helm) -> None:
    warning = "ServiceAccount mine-sharder in namespace ns"

    assert warning in notes(helm, {})
    assert warning not in notes(helm, {"rings": RINGS})
