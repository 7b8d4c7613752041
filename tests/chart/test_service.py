"""The Service in front of the pods."""

from collections.abc import Mapping

import msgspec

from sharder.config.settings import Settings
from tests.chart.rendering import find, pod_of


class Port(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    port: int
    target_port: str


class Service(msgspec.Struct, frozen=True):
    selector: Mapping[str, str]
    ports: tuple[Port, ...]


def service_of(rendered: str) -> Service:
    return msgspec.convert(find(rendered, "Service", "sharder").spec, Service)


def test_the_service_leads_to_the_ports_of_the_pods_of_the_release(default: str) -> None:
    service, pod = service_of(default), pod_of(default)

    assert service.selector.keys() == {"app.kubernetes.io/name", "app.kubernetes.io/instance"}
    assert service.selector.items() <= pod.metadata.labels.items()
    assert {port.name: (port.port, port.target_port) for port in service.ports} == {
        "webhook": (Settings().webhook.config.client_config.service.port, "webhook"),
        "metrics": (8080, "metrics"),
    }
    assert {port.target_port for port in service.ports} <= pod.ports.keys()
