"""What the chart refuses because it would not work, and what to do instead."""

from collections.abc import Mapping

import pytest

from sharder.config.settings import Settings
from tests.chart.rendering import Helm, HelmError

ISSUER = {"kind": "ClusterIssuer", "name": "mine"}
DEFAULT_STOP = int(Settings().graceful_shutdown_timeout.total_seconds())


def health(address: str) -> Mapping[str, object]:
    return {"config": {"health": {"bindAddress": address}}}


def files(**webhook: object) -> Mapping[str, object]:
    return {"config": {"certificates": {"mode": "Files"}, "webhook": {"config": webhook}}}


def stop(duration: str, seconds: int) -> Mapping[str, object]:
    return {"config": {"gracefulShutDown": duration}, "terminationGracePeriodSeconds": seconds}


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        (
            {"shardedResources": [{"group": "", "resources": ["secrets"]}]},
            "shardedResources was removed: list the resources in rings",
        ),
        (
            {
                "certManager": {"enabled": True},
                "config": {"certificates": {"mode": "SelfManaged"}},
            },
            r"certManager\.enabled needs config\.certificates\.mode Files: remove the mode",
        ),
        (
            {"certManager": {"issuerRef": ISSUER}},
            r"certManager\.issuerRef needs certManager\.enabled: set it to true",
        ),
        (
            {"image": {"repository": ""}},
            r"image\.repository is required, because there is no published image: build one",
        ),
        (
            {"config": {"certificates": {"mode": "Files"}}},
            r"mode Files needs config\.webhook\.config\.clientConfig\.caBundle, or an annotation",
        ),
        (health(":8080"), r"health\.bindAddress and config\.metrics\.bindAddress .* port 8080"),
        (
            {"config": {"webhook": {"server": {"port": 8082}}}},
            r"console\.bindAddress and config\.webhook\.server\.port have the same port 8082",
        ),
        ({"config": {"leaderElection": {"leaderElect": False}}}, "needs replicaCount 1"),
        (
            {"rings": [{"name": "web", "resources": [], "spec": {"movement": {}}}]},
            "rings: web has a spec, which needs create: set create to true",
        ),
        *[
            (
                {name: {"enabled": True}, "config": {"metrics": {"bindAddress": "0"}}},
                rf"{name}\.enabled needs the metrics",
            )
            for name in ("serviceMonitor", "prometheusRule")
        ],
        *[
            (health(address), r"do not reach config\.health\.bindAddress .*: write a port alone")
            for address in ("0", "127.0.0.1:8081", "localhost:8081", "[::1]:8081")
        ],
        *[
            (
                values,
                r"terminationGracePeriodSeconds .* must be more than config\.gracefulShutDown",
            )
            for values in (
                {"terminationGracePeriodSeconds": DEFAULT_STOP},
                stop("30s", 30),
                stop("1m30.5s", 90),
                stop("1h", 600),
            )
        ],
    ],
)
def test_what_would_not_work_is_refused_with_what_to_do(
    helm: Helm, values: Mapping[str, object], hint: str
) -> None:
    with pytest.raises(HelmError, match=hint):
        helm.template(values)


@pytest.mark.parametrize(
    "values",
    [
        {"terminationGracePeriodSeconds": DEFAULT_STOP + 1},
        stop("29.9s", 30),
        stop("1m30.5s", 91),
        stop("-1s", 1),
        files(clientConfig={"caBundle": "bWluZQ=="}),
        files(annotations={"service.beta.openshift.io/inject-cabundle": "true"}),
        health("0.0.0.0:8081"),
        health("[::]:8081"),
    ],
)
def test_what_works_is_taken(helm: Helm, values: Mapping[str, object]) -> None:
    assert helm.template(values)
