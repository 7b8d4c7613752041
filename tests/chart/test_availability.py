"""How the chart keeps replicas running, apart from each other, and reachable by few."""

from collections.abc import Mapping

import msgspec
import pytest

from tests.chart.rendering import Helm, decode_manifests, find, pod_of

SELECTED = {
    "matchLabels": {"app.kubernetes.io/name": "sharder", "app.kubernetes.io/instance": "sharder"}
}
PEER = {"ipBlock": {"cidr": "192.0.2.0/28"}}


def kinds_of(rendered: str) -> set[str]:
    return {each.kind for each in decode_manifests(rendered)}


class Ingress(msgspec.Struct, frozen=True, kw_only=True):
    ports: tuple[Mapping[str, str], ...]
    peers: tuple[object, ...] = msgspec.field(name="from", default=())


class Policy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pod_selector: Mapping[str, object]
    policy_types: tuple[str, ...]
    ingress: tuple[Ingress, ...]
    egress: tuple[object, ...] = ()

    def peers(self) -> dict[str, list[object]]:
        """Return who may connect, by the name of the port; an empty list allows every peer."""
        return {port["port"]: [*rule.peers] for rule in self.ingress for port in rule.ports}


def policy_of(rendered: str) -> Policy:
    return msgspec.convert(find(rendered, "NetworkPolicy", "sharder").spec, Policy)


def test_replicas_are_evicted_one_after_the_other(helm: Helm) -> None:
    budget = find(helm.template(), "PodDisruptionBudget", "sharder").spec

    assert budget == {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": SELECTED,
    }


@pytest.mark.parametrize("count", [0, 1])
def test_a_single_replica_may_be_evicted(helm: Helm, count: int) -> None:
    assert "PodDisruptionBudget" not in kinds_of(helm.template({"replicaCount": count}))


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


def test_another_spread_takes_the_place_of_the_default(helm: Helm) -> None:
    mine = [{"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]

    replaced = pod_of(helm.template({"topologySpreadConstraints": mine}))
    removed = pod_of(helm.template({"topologySpreadConstraints": []}))

    assert replaced.spec.topology_spread_constraints == tuple(mine)
    assert removed.spec.topology_spread_constraints is None


def test_there_is_no_network_policy_unless_it_is_wanted(helm: Helm) -> None:
    assert "NetworkPolicy" not in kinds_of(helm.template())


def test_a_network_policy_opens_the_three_ports_of_the_pods(helm: Helm) -> None:
    policy = policy_of(helm.template({"networkPolicy": {"enabled": True}}))

    assert policy.pod_selector == SELECTED
    assert policy.policy_types == ("Ingress",)
    assert policy.peers() == {"webhook": [], "health": [], "metrics": []}


def test_a_network_policy_lets_in_whom_the_values_name(helm: Helm) -> None:
    values = {"enabled": True, "webhookFrom": [PEER], "metricsFrom": [{"podSelector": {}}]}

    policy = policy_of(helm.template({"networkPolicy": values}))

    assert policy.peers() == {"webhook": [PEER], "health": [], "metrics": [{"podSelector": {}}]}


def test_a_network_policy_restricts_egress_where_the_values_do(helm: Helm) -> None:
    rule = {"to": [PEER], "ports": [{"port": 6443, "protocol": "TCP"}]}

    policy = policy_of(helm.template({"networkPolicy": {"enabled": True, "egress": [rule]}}))

    assert policy.policy_types == ("Ingress", "Egress")
    assert policy.egress == (rule,)


def test_the_network_policy_opens_no_port_for_metrics_that_are_off(helm: Helm) -> None:
    values = {
        "networkPolicy": {"enabled": True},
        "config": {"metrics": {"bindAddress": "0"}},
    }

    assert "metrics" not in policy_of(helm.template(values)).peers()


def test_a_network_policy_selects_the_pods(helm: Helm) -> None:
    pod = pod_of(helm.template({"podLabels": {"team": "a"}}))

    assert pod.metadata.labels.items() >= SELECTED["matchLabels"].items()
