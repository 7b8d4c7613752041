"""Package, chart, image and changelog are of one version."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sharder import __version__
from tests.chart.rendering import CHART, REQUIRED, Helm, HelmError
from tests.support.documents import ROOT, read

NAMING = [
    path
    for path in (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.*"))
    if path.suffix in {".md", ".yaml"} and "/sharder:" in path.read_text()
]


def test_the_chart_is_of_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_chart_installs_on_the_oldest_kubernetes_that_is_named(helm: Helm) -> None:
    (minor,) = re.findall(r"^\| Kubernetes \| 1\.(\d+) \|", read(Path("README.md")), re.MULTILINE)

    render = ("template", "sharder", str(CHART), "--kube-version")
    assert helm.run(*render, f"1.{minor}.0", values=REQUIRED)
    with pytest.raises(HelmError, match="incompatible with Kubernetes"):
        helm.run(*render, f"1.{int(minor) - 1}.9", values=REQUIRED)


def test_the_changelog_begins_with_the_version() -> None:
    sections = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    released = [section for section in sections if section != "Unreleased"]

    assert sections[0] in {"Unreleased", released[0]}
    assert re.fullmatch(rf"{re.escape(__version__)} \(\d{{4}}-\d\d-\d\d\)", released[0])


@pytest.mark.parametrize("path", NAMING, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_image_that_is_named_has_the_version(path: Path) -> None:
    assert set(re.findall(r"/sharder:(\d[\w.]*)", path.read_text())) == {__version__}


def test_the_manifests_for_gitops_name_the_version_and_install_the_chart(helm: Helm) -> None:
    (argo,) = _read("examples/gitops/application.yaml")
    repository, flux = _read("examples/gitops/helmrelease.yaml")

    assert argo["spec"]["source"]["targetRevision"] == f"v{__version__}"
    assert repository["spec"]["ref"]["tag"] == __version__
    assert helm.template(argo["spec"]["source"]["helm"]["valuesObject"])
    assert helm.template(flux["spec"]["values"])


def _read(path: str) -> list[Any]:
    return list(yaml.safe_load_all((ROOT / path).read_text()))
