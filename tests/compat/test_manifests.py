"""The manifests written for the reference use every field that it has, and all are known here.

The API server and a running sharder take them in tests/integration/test_reference_manifests.py.
"""

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from sharder.config.load import load
from tests.support.manifests import CONFIGS, SERVICE, fields_of, ring_specs

# From the reference's pkg/apis/sharding/v1alpha1 and pkg/apis/config/v1alpha1, and the types of
# Kubernetes that these are made of; the keys of maps are left out.
SELECTOR = (
    "matchLabels",
    "matchExpressions.key",
    "matchExpressions.operator",
    "matchExpressions.values",
)
RING_FIELDS = {
    "resources.group",
    "resources.resource",
    "resources.controlledResources.group",
    "resources.controlledResources.resource",
    *(f"namespaceSelector.{field}" for field in SELECTOR),
}
CONFIG_FIELDS = {
    "gracefulShutDown",
    *(
        f"{group}.{field}"
        for group, fields in {
            "clientConnection": (
                "kubeconfig", "acceptContentTypes", "contentType", "qps", "burst",
            ),
            "leaderElection": (
                "leaderElect", "leaseDuration", "renewDeadline", "retryPeriod",
                "resourceLock", "resourceName", "resourceNamespace",
            ),
            "debugging": ("enableProfiling", "enableContentionProfiling"),
            "health": ("bindAddress",),
            "metrics": ("bindAddress",),
            "controller.sharder": ("syncPeriod", "concurrentMoves"),
            "webhook.server": ("certDir", "certName", "keyName"),
            "webhook.config": ("annotations",),
            "webhook.config.clientConfig": ("url", "caBundle"),
            "webhook.config.clientConfig.service": ("namespace", "name", "path", "port"),
            "webhook.config.namespaceSelector": SELECTOR,
        }.items()
        for field in fields
    ),
}  # fmt: skip


def test_the_rings_use_every_field_of_the_reference() -> None:
    assert {field for spec in ring_specs().values() for field in fields_of(spec)} == RING_FIELDS


def test_the_configurations_use_every_field_of_the_reference() -> None:
    used = {f for file in CONFIGS for f in fields_of(yaml.safe_load(file.read_text()))}

    assert used - {"apiVersion", "kind"} == CONFIG_FIELDS


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_no_field_of_a_configuration_is_unknown(file: Path) -> None:
    assert load(file.read_bytes(), strict=True).unknown == ()


def test_the_values_of_a_configuration_are_taken() -> None:
    settings = load(SERVICE.read_bytes()).settings

    client_config = settings.webhook.config.client_config
    assert settings.leader_election.lease_duration == timedelta(seconds=20)
    assert settings.leader_election.renew_deadline == timedelta(seconds=15)
    assert (client_config.service.port, client_config.service.path) == (8443, "/behind/a/gateway")
    assert settings.graceful_shutdown_timeout == timedelta(seconds=90)
    assert settings.controller.sharder.sync_period == timedelta(minutes=10)
    assert settings.controller.sharder.concurrent_moves == 50
    assert settings.webhook.server.key_name == "server.key"
