"""How the chart keeps replicas running, apart from each other, and reachable by few."""

from collections.abc import Mapping

import msgspec

from tests.chart.rendering import Helm, decode_manifests, find, pod_of

SELECTED = {
    "matchLabels": {"app.kubernetes.io/name": "sharder", "app.kubernetes.io/instance": "sharder"}
}


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


def test_there_is_no_network_policy_unless_it_is_wanted(helm: Helm) -> None:
    assert "NetworkPolicy" not in kinds_of(helm.template())


def test_a_network_policy_opens_the_three_ports_of_the_pods(helm: Helm) -> None:
    policy = policy_of(helm.template({"networkPolicy": {"enabled": True}}))

    assert policy.pod_selector == SELECTED
    assert policy.policy_types == ("Ingress",)
    assert policy.peers() == {"webhook": [], "health": [], "metrics": []}
