"""The SharderConfig that the chart renders, and what follows from it."""

import msgspec
import yaml

from sharder.config.load import load
from tests.chart.rendering import Helm, find, pod_of


def config_of(rendered: str) -> dict[str, object]:
    text = find(rendered, "ConfigMap", "sharder").data["config.yaml"]
    load(text.encode(), strict=True)
    return msgspec.convert(yaml.safe_load(text), dict[str, object])


def checksum_of(rendered: str) -> str:
    return pod_of(rendered).metadata.annotations["checksum/config"]


def test_the_configuration_follows_from_the_release(helm: Helm) -> None:
    assert config_of(helm.template(namespace="ns")) == {
        "apiVersion": "config.sharding.timebertt.dev/v1alpha1",
        "kind": "SharderConfig",
        "certificates": {"mode": "SelfManaged", "secretName": "sharder-certificates"},
        "console": {"bindAddress": "127.0.0.1:8082"},
        "health": {"bindAddress": ":8081"},
        "leaderElection": {"resourceNamespace": "ns"},
        "metrics": {"bindAddress": ":8080"},
        "webhook": {
            "config": {
                "clientConfig": {"service": {"name": "sharder", "namespace": "ns"}},
            },
            "server": {"port": 9443},
        },
    }


def test_values_are_merged_into_the_configuration(helm: Helm) -> None:
    values = {
        "config": {
            "controller": {"sharder": {"syncPeriod": "10m"}},
            "leaderElection": {"leaseDuration": "30s"},
        }
    }

    config = config_of(helm.template(values))

    assert config["controller"] == {"sharder": {"syncPeriod": "10m"}}
    assert config["leaderElection"] == {
        "leaseDuration": "30s",
        "resourceNamespace": "sharding-system",
    }


def test_the_ports_of_the_pod_are_those_of_the_configuration(helm: Helm) -> None:
    values = {
        "config": {
            "health": {"bindAddress": "0.0.0.0:1081"},
            "metrics": {"bindAddress": ":1080"},
            "webhook": {"server": {"port": 1443}},
            "console": {"bindAddress": "0"},
        }
    }

    assert pod_of(helm.template()).ports == {
        "webhook": 9443,
        "metrics": 8080,
        "health": 8081,
        "console": 8082,
    }
    assert pod_of(helm.template(values)).ports == {
        "webhook": 1443,
        "metrics": 1080,
        "health": 1081,
    }


def test_the_rights_follow_the_namespace_of_the_lease(helm: Helm) -> None:
    values = {"config": {"leaderElection": {"resourceNamespace": "elsewhere"}}}

    rendered = helm.template(values)

    assert find(rendered, "Role", "sharder").metadata.namespace == "elsewhere"
    assert find(rendered, "RoleBinding", "sharder").metadata.namespace == "elsewhere"


def test_a_change_of_the_configuration_replaces_the_pods(helm: Helm) -> None:
    values = {"config": {"gracefulShutDown": "20s"}}

    assert checksum_of(helm.template()) != checksum_of(helm.template(values))
