import pytest

from hack import binaries
from tests.chart.rendering import Helm


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """helm without a cluster."""
    return Helm(program=binaries.helm(), home=tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def default(helm: Helm) -> str:
    """The chart as it is rendered without values."""
    return helm.template()
