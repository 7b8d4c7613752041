"""What the documents give to helm is taken by the chart: values and commands."""

import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import CHART, REQUIRED, Helm
from tests.support.documents import (
    DOCUMENTS,
    ROOT,
    Block,
    blocks,
    commands,
    read,
)

KEYS = {*yaml.safe_load((CHART / "values.yaml").read_text())}
KEPT = {"--namespace", "-n", "--set", "--set-json"}
"""Options that `helm template` has too; the others say how to install."""


def is_for_the_chart(block: Block) -> bool:
    document = yaml.safe_load(next(iter(block.text.split("\n---\n"))))
    return isinstance(document, dict) and {*document} <= KEYS


VALUES = [block for block in blocks("yaml") if is_for_the_chart(block)]


COMMANDS = {
    f"{document}: {command}": shlex.split(command)
    for document in DOCUMENTS
    for command in commands(read(document))
    if command.startswith(("helm install", "helm upgrade"))
}


def rendering(words: list[str]) -> Iterator[str]:
    """Yield the command that renders what another one installs."""
    release, chart = [word for word in words[2:] if not word.startswith("-")][:2]
    yield from ("template", release, str(ROOT / chart))
    for option, value in pairwise(words):
        if option in KEPT:
            yield from (option, value)
        if option in {"--values", "-f"} and (ROOT / value).exists():
            yield from (option, str(ROOT / value))


@pytest.mark.parametrize("block", VALUES, ids=str)
def test_documented_values_are_values_of_the_chart(helm: Helm, block: Block) -> None:
    assert helm.template(yaml.safe_load(block.text))


@pytest.mark.parametrize("place", COMMANDS)
def test_a_documented_command_installs_what_helm_can_render(helm: Helm, place: str) -> None:
    assert helm.run(*rendering(COMMANDS[place]), values=REQUIRED)


@pytest.mark.parametrize("file", sorted(ROOT.glob("examples/*/sharder-values.yaml")), ids=str)
def test_the_values_for_an_example_cover_its_ring(helm: Helm, file: Path) -> None:
    (ring,) = yaml.safe_load(file.read_text())["rings"]
    listed = yaml.safe_load((file.parent / "deploy/ring.yaml").read_text())

    rendered = helm.template(yaml.safe_load(file.read_text()))

    assert "sharder-sharded-resources" in rendered
    assert (ring["name"], ring["resources"]) == (
        listed["metadata"]["name"],
        listed["spec"]["resources"],
    )
