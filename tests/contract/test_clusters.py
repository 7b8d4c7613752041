"""The cluster of the testing kit keeps the contract of clusters."""

import pytest

from sharder.sdk.testing import FakeCluster
from tests.support.cluster_contract import ClusterContract, Place


class TestFakeCluster(ClusterContract):
    @pytest.fixture
    def place(self) -> Place:
        return Place(cluster=FakeCluster(), namespace="ns")
