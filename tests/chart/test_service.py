"""The Service in front of the pods."""

from collections.abc import Mapping

import msgspec

from sharder.config.settings import Settings
from tests.chart.rendering import find, pod_of


class Port(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    port: int
    target_port: str
    protocol: str


class Service(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: str
    selector: Mapping[str, str]
    ports: tuple[Port, ...]


def service_of(rendered: str) -> Service:
    return msgspec.convert(find(rendered, "Service", "sharder").spec, Service)


def test_the_service_selects_the_pods_of_the_release(default: str) -> None:
    selector = service_of(default).selector

    assert selector.keys() == {"app.kubernetes.io/name", "app.kubernetes.io/instance"}
    assert selector.items() <= pod_of(default).metadata.labels.items()


def test_the_ports_of_the_service_lead_to_those_of_the_pod(default: str) -> None:
    ports = service_of(default).ports

    assert {port.name: (port.port, port.target_port) for port in ports} == {
        "webhook": (Settings().webhook.config.client_config.service.port, "webhook"),
        "metrics": (8080, "metrics"),
    }
    assert {port.target_port for port in ports} <= pod_of(default).ports.keys()
