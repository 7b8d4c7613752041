"""Facts about `sharder.config`: defaults, layers, and how errors are reported."""

import ast
import inspect
from datetime import timedelta
from itertools import pairwise

import pytest

from sharder.config import settings as config_settings
from sharder.config.load import environment_names, load
from sharder.config.settings import (
    CertificateMode,
    LogFormat,
    LogLevel,
    Settings,
    certificate_mode,
)
from sharder.core import webhook_configuration
from sharder.core.api.meta import LabelSelector
from sharder.core.errors import ConfigError

HEADER = "apiVersion: config.sharding.timebertt.dev/v1alpha1\nkind: SharderConfig\n"


def settings(text: str = "") -> Settings:
    return load((HEADER + text).encode()).settings


def problems(text: str = "", environment: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load((HEADER + text).encode(), environment, strict=True)
    return str(caught.value).split("; ")


def test_nothing_given_means_the_defaults_of_the_reference() -> None:
    defaults = load().settings

    assert (
        defaults
        == Settings()
        == settings("logging:\nhealth: {bindAddress: }\nconsole: {bindAddress: ''}")
    )
    nothing = {"SHARDER_LOGGING_LEVEL": ""}, {"clientConnection.kubeconfig": ""}
    assert load(f"{HEADER}clientConnection: {{kubeconfig: x}}".encode(), *nothing).settings == (
        settings("clientConnection: {kubeconfig: x}")
    )
    assert defaults.leader_election.lease_duration == timedelta(seconds=15)
    assert defaults.leader_election.resource_name == "sharder"
    assert defaults.leader_election.resource_namespace == "sharding-system"
    assert defaults.health.bind_address == ":8081"
    assert defaults.metrics.bind_address == ":8080"
    assert defaults.controller.sharder.sync_period == timedelta(minutes=5)
    assert defaults.controller.sharder.concurrent_moves == 100
    assert defaults.graceful_shutdown_timeout == timedelta(seconds=15)
    service = defaults.webhook.config.client_config.service
    assert (service.name, service.port) == ("sharder", 443)


def test_the_environment_wins_over_the_file_and_flags_over_both() -> None:
    text = f"{HEADER}logging: {{level: debug, format: text}}\nhealth: {{bindAddress: ':1'}}"
    environment = {"SHARDER_LOGGING_LEVEL": "warning", "SHARDER_LOGGING_FORMAT": "json"}

    merged = load(text.encode(), environment, {"logging.level": "error"}).settings

    assert merged.logging.level is LogLevel.ERROR
    assert merged.logging.format is LogFormat.JSON
    assert merged.health.bind_address == ":1"


def test_every_field_has_a_variable() -> None:
    environment = {
        "SHARDER_LEADER_ELECTION_LEADER_ELECT": "false",
        "SHARDER_CONTROLLER_SHARDER_SYNC_PERIOD": "1m",
        "SHARDER_WEBHOOK_SERVER_PORT": "1234",
        "SHARDER_WEBHOOK_CONFIG_ANNOTATIONS": "{a: b}",
        "SHARDER_WEBHOOK_CONFIG_NAMESPACE_SELECTOR": "{}",
        "SHARDER_SHARDER_USER_NAMES": "[one, two]",
        "SHARDER_GRACEFUL_SHUT_DOWN": "3s",
    }

    merged = load(environment=environment, strict=True).settings

    assert set(environment) <= set(environment_names())
    assert not merged.leader_election.leader_elect
    assert merged.controller.sharder.sync_period == timedelta(minutes=1)
    assert merged.webhook.server.port == 1234
    assert merged.webhook.config.annotations == {"a": "b"}
    assert merged.webhook.config.namespace_selector == LabelSelector()
    assert merged.sharder_user_names == ("one", "two")
    assert merged.graceful_shutdown_timeout == timedelta(seconds=3)


def test_unknown_fields_are_reported_one_by_one_with_what_may_be_meant() -> None:
    text = f"{HEADER}health: {{bindAdress: ':1'}}\nextra: {{a: 1}}\nlogging: {{lvl: a}}"
    environment = {"SHARDER_EXTRA": "1", "OTHER": "2"}

    assert load(text.encode(), environment).unknown == (
        "health.bindAdress: unknown field (did you mean health.bindAddress?)",
        "extra: unknown field",
        "logging.lvl: unknown field (did you mean logging.level?)",
        "SHARDER_EXTRA: unknown variable",
    )


def test_all_problems_are_reported_together() -> None:
    text = """
leaderElection: {leaseDuration: soon, leaderElect: 3}
health: {bindAddress: nowhere}
controller: {sharder: {syncPeriod: 5, concurrentMoves: 0}}
certificates: {mode: Magic}
"""

    assert problems(text, {"SHARDER_WEBHOOK_SERVER_PORT": "high"}) == [
        "leaderElection.leaseDuration: 'soon' is not a duration such as 100ms, 15s, 5m or 1h30m",
        "leaderElection.leaderElect: Expected `bool`, got `int` (it is 3)",
        "controller.sharder.syncPeriod: must be a duration such as 15s or 5m, but is 5",
        "controller.sharder.concurrentMoves: Expected `int` >= 1 (it is 0)",
        "certificates.mode: must be one of SelfManaged, Files, but is 'Magic'",
        "SHARDER_WEBHOOK_SERVER_PORT: Expected `int`, got `str` (it is 'high')",
        "health.bindAddress: 'nowhere' is neither host:port nor 0",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "leaderElection: {leaseDuration: 10s}",
            "leaderElection.leaseDuration: must be longer than renewDeadline (10s), but is 10s",
        ),
        (
            "leaderElection: {renewDeadline: 2400ms}",
            "leaderElection.renewDeadline: must be longer than 1.2 times retryPeriod (2s), "
            "but is 2.4s",
        ),
        (
            "leaderElection: {leaseDuration: 15500ms}",
            "leaderElection.leaseDuration: must be whole seconds, at least 1s",
        ),
        (
            "leaderElection: {retryPeriod: 0s}",
            "leaderElection.retryPeriod: must be longer than 0s",
        ),
        (
            "console: {bindAddress: ':8082'}",
            "console.bindAddress: must be on the loopback, such as 127.0.0.1:8082, but is "
            "':8082': this port asks for no token",
        ),
        (
            "controller: {sharder: {syncPeriod: -1s}}",
            "controller.sharder.syncPeriod: must be longer than 0s",
        ),
        ("metrics: {bindAddress: 'x:99999'}", "metrics.bindAddress: 'x:99999' is neither host"),
        (
            "certificates: {validity: 720h}",
            "certificates.validity: must be longer than rotateBefore (2592000s), but is 2592000s",
        ),
        ("certificates: {rotateBefore: 0s}", "certificates.rotateBefore: must be longer than 0s"),
        ("health: 8081", "health: must be a mapping, but is 8081"),
    ],
)
def test_settings_that_cannot_work_are_refused(text: str, problem: str) -> None:
    assert any(told.startswith(problem) for told in problems(text))


@pytest.mark.parametrize(
    ("text", "has_certificate", "mode"),
    [
        ("", False, CertificateMode.SELF_MANAGED),
        ("", True, CertificateMode.FILES),
        (
            "webhook: {config: {annotations: {cert-manager.io/inject-ca-from: a/b}}}",
            False,
            CertificateMode.FILES,
        ),
        ("certificates: {mode: SelfManaged}", True, CertificateMode.SELF_MANAGED),
    ],
)
def test_certificates_are_our_own_unless_another_client_provides_them(
    text: str, has_certificate: bool, mode: CertificateMode
) -> None:
    assert certificate_mode(settings(text), has_certificate=has_certificate) is mode


def test_every_field_is_explained() -> None:
    sources = [inspect.getsource(module) for module in (config_settings, webhook_configuration)]
    nodes = [node for source in sources for node in ast.parse(source).body]
    groups = [node for node in nodes if isinstance(node, ast.ClassDef) and node.keywords]
    names = {group.name for group in groups}

    silent = [
        f"{group.name}.{ast.unparse(field.target)}"
        for group in groups
        for field, after in pairwise([*group.body, group])
        if isinstance(field, ast.AnnAssign)
        and ast.unparse(field.annotation) not in names
        and not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant))
    ]
    assert len(names) > 10
    assert silent == []
