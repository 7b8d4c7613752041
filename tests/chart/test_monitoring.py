"""ServiceMonitor, PrometheusRule and dashboard."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
import yaml

from sharder.tls.issue import service_names
from tests.chart.rendering import CHART, Helm, HelmError, decode_manifests, find
from tests.support.alerts import FILE, promtool, queries
from tests.support.documents import read

ALERTS = yaml.safe_load(FILE.read_text())["groups"][0]["rules"]
NAMES = [rule["alert"] for rule in ALERTS]
ON: Mapping[str, object] = {"enabled": True}


class Endpoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    port: str
    scheme: str
    bearer_token_file: str
    tls_config: Mapping[str, object]


def endpoint_of(rendered: str) -> Endpoint:
    [endpoint] = msgspec.convert(
        find(rendered, "ServiceMonitor", "sharder").spec["endpoints"], tuple[Endpoint, ...]
    )
    return endpoint


def alerts_of(rendered: str) -> Sequence[object]:
    [group] = msgspec.convert(
        find(rendered, "PrometheusRule", "sharder").spec["groups"], list[dict[str, object]]
    )
    return msgspec.convert(group["rules"], list[object])


def test_nothing_of_it_is_rendered_by_default(default: str) -> None:
    kinds = {each.kind for each in decode_manifests(default)}

    assert not kinds & {"ServiceMonitor", "PrometheusRule"}
    assert not [each for each in decode_manifests(default) if "dashboard" in each.metadata.name]


def test_the_monitor_selects_the_service_and_its_port(helm: Helm) -> None:
    rendered = helm.template({"serviceMonitor": ON}, namespace="ns")
    monitor, service = (find(rendered, k, "sharder") for k in ("ServiceMonitor", "Service"))
    selector = msgspec.convert(monitor.spec["selector"], dict[str, dict[str, str]])
    ports = msgspec.convert(service.spec["ports"], tuple[dict[str, object], ...])

    assert selector["matchLabels"].items() <= service.metadata.labels.items()
    assert monitor.spec["namespaceSelector"] == {"matchNames": ["ns"]}
    assert endpoint_of(rendered).port in {port["name"] for port in ports}


def test_the_monitor_verifies_the_sharder_and_sends_the_token_of_prometheus(helm: Helm) -> None:
    rendered = helm.template({"serviceMonitor": ON}, namespace="ns")

    endpoint, secret = endpoint_of(rendered), find(rendered, "Secret", "sharder-certificates")
    name = endpoint.tls_config["serverName"]
    assert endpoint.scheme == "https"
    assert endpoint.bearer_token_file.endswith("/serviceaccount/token")
    assert name in service_names("sharder", "ns")
    assert endpoint.tls_config["ca"] == {"secret": {"name": secret.metadata.name, "key": "ca.crt"}}


def test_the_named_service_account_may_read_the_metrics(helm: Helm) -> None:
    account = {"namespace": "monitoring", "name": "prometheus"}

    rendered = helm.template({"serviceMonitor": {**ON, "serviceAccount": account}})

    binding = find(rendered, "ClusterRoleBinding", "sharder-metrics-reader")
    assert binding.role_ref is not None
    assert find(rendered, "ClusterRole", binding.role_ref.name).rules[0].verbs == ("get",)
    assert [(each.kind, each.name) for each in binding.subjects] == [
        ("ServiceAccount", "prometheus")
    ]


def test_the_rule_has_the_alerts_of_the_file(helm: Helm) -> None:
    assert alerts_of(helm.template({"prometheusRule": ON})) == ALERTS


def test_the_alerts_follow_the_conventions_of_mixins() -> None:
    assert len({*NAMES}) == len(NAMES)
    for rule in ALERTS:
        assert rule["alert"].startswith("Sharder")
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert {*rule["annotations"]} == {"summary", "description"}


def test_every_alert_can_be_disabled_and_nothing_else(helm: Helm) -> None:
    disabled = {**ON, "disabled": NAMES}

    assert not alerts_of(helm.template({"prometheusRule": disabled}))
    with pytest.raises(HelmError, match="prometheusRule/disabled/0"):
        helm.template({"prometheusRule": {**ON, "disabled": ["SharderNothing"]}})


def test_grafana_finds_the_dashboard_as_it_is_in_the_file(helm: Helm) -> None:
    rendered = find(
        helm.template({"grafanaDashboard": ON}, namespace="ns"), "ConfigMap", "sharder-dashboard"
    )

    assert rendered.metadata.labels["grafana_dashboard"] == "1"
    assert rendered.metadata.namespace == "ns"
    file = json.loads((CHART / "files/dashboard.json").read_text())
    assert json.loads(rendered.data["sharder.json"]) == file


def test_prometheus_accepts_the_alerts() -> None:
    promtool("check", "rules", str(FILE))


def test_prometheus_accepts_what_the_dashboard_asks(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    asked = [query.replace("$__rate_interval", "5m").replace("$ring", ".*") for query in queries()]
    rules = [{"record": f"query:{number}", "expr": expr} for number, expr in enumerate(asked)]
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))

    assert asked
    promtool("check", "rules", str(file))


def test_every_alert_has_its_part_in_the_runbook() -> None:
    runbook = read(Path("docs/alerts.md"))

    assert re.findall(r"^## (.+)$", runbook, re.MULTILINE) == NAMES
