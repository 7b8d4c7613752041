"""The documents for those who install, typed in their order on a real API server.

There are no nodes, no images and no cert-manager here, so what waits for pods or for their work,
reads their logs or deletes what cert-manager made is left out.  So is `sharder check`, which
fails where no sharder runs; `test_check.py` has it.
"""

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from hack.control_plane import ControlPlane
from hack.playground import CRD
from sharder.core.names import VALIDATION_NAME
from tests.support.documented_ring import shell
from tests.support.documents import ROOT, blocks, commands, read

INSTALL, MIGRATE, SECURITY, TROUBLESHOOTING, UPGRADE = (
    Path(f"docs/{name}.md")
    for name in ("install", "migrate", "security", "troubleshooting", "upgrade")
)
LEFT_OUT = re.compile(
    r"docker |.* rollout status |.* wait |.* logs |.* certificate/|sharder check"
)
RING, REFERENCE = (ROOT / f"tests/support/typed_{name}.yaml" for name in ("ring", "reference"))
SYSTEM = "sharding-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """A shell in a checkout, with kubectl, helm and sharder."""

    plane: ControlPlane
    folder: Path

    def type(self, command: str) -> subprocess.CompletedProcess[str]:
        return shell(command, self.plane.admin_kubeconfig, self.folder)

    def insist(self, *commands: str) -> None:
        """Type what prepares for others."""
        for command in commands:
            done = self.type(command)
            assert done.returncode == 0, (command, done.stderr)


def typed(document: Path) -> list[str]:
    """Return the commands of a document in order."""
    return [command for command in commands(read(document)) if not LEFT_OUT.match(command)]


def example(document: Path, containing: str) -> str:
    """Return the first block of YAML that has a text in it."""
    found = (b.text for b in blocks("yaml") if b.document == document and containing in b.text)
    return next(found)


def values(terminal: Terminal, document: Path) -> None:
    """Write what a document says of the values."""
    (terminal.folder / "values.yaml").write_text(example(document, "rings:"))


def empty(terminal: Terminal) -> None:
    """Leave nothing of the document before but namespaces."""
    terminal.insist(
        "helm uninstall sharder --namespace sharding-system --ignore-not-found",
        "kubectl delete --ignore-not-found crd/controllerrings.sharding.timebertt.dev"
        " clusterrolebinding/prometheus-sharder-metrics"
        f" validatingwebhookconfiguration/{VALIDATION_NAME}",
        "kubectl delete --ignore-not-found secret/sharder-certificates deployment/sharder"
        " -n sharding-system",
    )


def established(terminal: Terminal) -> None:
    terminal.insist("kubectl wait --for=condition=Established crd --all")


def with_nothing(terminal: Terminal) -> None:
    values(terminal, INSTALL)
    (terminal.folder / "my-ring.yaml").write_text(RING.read_text())


def with_the_reference(terminal: Terminal) -> None:
    values(terminal, MIGRATE)
    terminal.insist(f"kubectl apply -f {CRD}")
    established(terminal)
    # The reference has no such webhook: it is the one that the sharder would have made.
    terminal.insist(
        f"kubectl apply -f {REFERENCE} -f {RING}",
        "printf 'apiVersion: admissionregistration.k8s.io/v1\\n"
        "kind: ValidatingWebhookConfiguration\\n"
        f"metadata: {{name: {VALIDATION_NAME}}}\\n' | kubectl apply -f -",
    )


def with_the_chart(terminal: Terminal) -> None:
    values(terminal, INSTALL)
    terminal.insist(
        "helm install sharder charts/sharder --namespace sharding-system --create-namespace"
        " --take-ownership --force-conflicts --values values.yaml"
    )
    established(terminal)
    terminal.insist(f"kubectl apply -f {RING}")


PREPARED: Mapping[Path, Callable[[Terminal], None]] = {
    INSTALL: with_nothing,
    MIGRATE: with_the_reference,
    SECURITY: with_the_chart,
    TROUBLESHOOTING: with_the_chart,
    UPGRADE: with_the_chart,
}


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("charts", "examples"):
        (folder / name).symlink_to(ROOT / name)
    with ControlPlane() as plane:
        terminal = Terminal(plane=plane, folder=folder)
        terminal.insist(
            f"kubectl create namespace {SYSTEM}", "kubectl create namespace monitoring"
        )
        yield terminal


@pytest.mark.parametrize("document", PREPARED, ids=str)
def test_the_commands_of_a_document_succeed_one_after_the_other(
    terminal: Terminal, document: Path
) -> None:
    empty(terminal)
    PREPARED[document](terminal)

    failed = []
    for command in typed(document):
        done = terminal.type(command)
        if command.startswith("helm install"):
            established(terminal)
        if done.returncode:
            failed.append((command, done.stdout, done.stderr))

    assert not failed


def test_the_owners_that_are_compared_are_those_of_the_objects(terminal: Terminal) -> None:
    empty(terminal)
    with_the_reference(terminal)
    (looks,) = (command for command in typed(MIGRATE) if command.endswith("> before"))

    terminal.insist(looks)

    uid = terminal.type("kubectl get secret my-secret -o jsonpath={.metadata.uid}").stdout
    assert (terminal.folder / "before").read_text().split() == [uid, "shard-a"]
