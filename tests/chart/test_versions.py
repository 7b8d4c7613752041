"""Package, chart, image and changelog are of one version."""

import re
from pathlib import Path

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


def test_the_chart_and_the_security_policy_are_of_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    minor = __version__.rpartition(".")[0]

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    assert f"| {minor}.x | yes, until" in read(Path("SECURITY.md"))


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
    for name, reference, values in (
        ("application", f"targetRevision: v{__version__}", "spec.source.helm.valuesObject"),
        ("helmrelease", f"tag: {__version__}", "spec.values"),
    ):
        text = (ROOT / f"examples/gitops/{name}.yaml").read_text()
        found = list(yaml.safe_load_all(text))[-1]
        for key in values.split("."):
            found = found[key]
        assert reference in text
        assert helm.template(found)
