"""The values that the documents give to helm are taken by the chart."""

from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import CHART, Helm
from tests.support.documents import ROOT, Block, blocks

KEYS = {*yaml.safe_load((CHART / "values.yaml").read_text())}


def is_for_the_chart(block: Block) -> bool:
    document = yaml.safe_load(next(iter(block.text.split("\n---\n"))))
    return isinstance(document, dict) and {*document} <= KEYS


VALUES = [block for block in blocks("yaml") if is_for_the_chart(block)]


@pytest.mark.parametrize("block", VALUES, ids=str)
def test_documented_values_are_values_of_the_chart(helm: Helm, block: Block) -> None:
    assert helm.template(yaml.safe_load(block.text))


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
