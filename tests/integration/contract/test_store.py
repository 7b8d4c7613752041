"""The cluster's stores keep the contract of stores, on a real API server."""

import pytest

from sharder.core.api.lease import Lease
from sharder.kube.client import Client
from sharder.kube.objects import KubeObjects
from sharder.kube.store import KubeStore
from sharder.kube.typed_stores import LEASES
from tests.support.store_contract import StoreContract, World


class TestKubeStore(StoreContract):
    @pytest.fixture
    def world(self, client: Client, own_namespace: str) -> World:
        return World(
            namespace=own_namespace,
            leases=lambda labels: KubeStore(
                client, Lease, LEASES, namespace=own_namespace, labels=labels
            ),
            objects=KubeObjects(client),
        )
