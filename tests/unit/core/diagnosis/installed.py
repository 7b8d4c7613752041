"""What is installed: the CRD of this release, and a Deployment of the sharder."""

from pathlib import Path

import msgspec
import yaml

from sharder.core.api.cluster import (
    Container,
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    Pod,
    PodSpec,
    Schema,
)
from sharder.core.api.meta import ObjectMeta

CRD = Path(__file__).parents[4] / "charts/sharder/templates/crd.yaml"


def released() -> Schema:
    """Return the schema of the CRD of this release."""
    document = yaml.safe_load(CRD.read_text())
    schema = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return msgspec.convert(schema, Schema)


def deployment(*, wanted: int, ready: int, container: str = "sharder") -> Deployment:
    """Return a Deployment with a container of that name."""
    pods = Pod(spec=PodSpec(containers=(Container(name=container),)))
    return Deployment(
        metadata=ObjectMeta(name="sharder", namespace="sharding-system"),
        spec=DeploymentSpec(replicas=wanted, template=pods),
        status=DeploymentStatus(ready_replicas=ready),
    )
