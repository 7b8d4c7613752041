"""The cluster of a shard keeps the contract of clusters, on a real API server."""

import pytest

from sharder.kube.client import Client
from sharder.shard.cluster import Cluster
from tests.support.cluster_contract import ClusterContract, Place


class TestCluster(ClusterContract):
    @pytest.fixture
    def place(self, client: Client, own_namespace: str) -> Place:
        return Place(cluster=Cluster(client), namespace=own_namespace)
