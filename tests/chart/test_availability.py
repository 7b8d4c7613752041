"""How the chart keeps replicas running, apart from each other, and reachable, but by few."""

from tests.chart.rendering import Helm, find, pod_of

LABELS = {"app.kubernetes.io/name": "sharder", "app.kubernetes.io/instance": "sharder"}
SELECTED = {"matchLabels": LABELS}


def test_replicas_are_evicted_one_after_the_other(helm: Helm) -> None:
    budget = find(helm.template(), "PodDisruptionBudget", "sharder").spec

    assert budget == {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": SELECTED,
    }


def test_replicas_are_spread_over_hosts_and_zones(helm: Helm) -> None:
    spread = pod_of(helm.template()).spec.topology_spread_constraints

    assert spread == tuple(
        {
            "topologyKey": key,
            "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": SELECTED,
            "matchLabelKeys": ["pod-template-hash"],
        }
        for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")
    )


def test_the_service_leads_to_the_ports_of_the_pods_of_the_release(default: str) -> None:
    pod = pod_of(default)

    assert find(default, "Service", "sharder").spec == {
        "type": "ClusterIP",
        "selector": LABELS,
        "ports": [
            {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}
            for name, port in (("webhook", 443), ("metrics", 8080))
        ],
    }
    assert LABELS.items() <= pod.metadata.labels.items()
    assert {"webhook", "metrics"} <= pod.ports.keys()


def test_a_network_policy_opens_the_three_ports_of_the_pods(helm: Helm) -> None:
    assert "NetworkPolicy" not in helm.template()
    rendered = helm.template({"networkPolicy": {"enabled": True}})

    assert find(rendered, "NetworkPolicy", "sharder").spec == {
        "podSelector": SELECTED,
        "policyTypes": ["Ingress"],
        "ingress": [
            {"ports": [{"port": name, "protocol": "TCP"}]}
            for name in ("webhook", "health", "metrics")
        ],
    }
