"""What is installed: the CRD of this release."""

from pathlib import Path

import msgspec
import yaml

from sharder.core.api.cluster import Schema

CRD = Path(__file__).parents[4] / "charts/sharder/templates/crd.yaml"


def released() -> Schema:
    """Return the schema of the CRD of this release."""
    document = yaml.safe_load(CRD.read_text())
    schema = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return msgspec.convert(schema, Schema)
