"""The pods that the Deployment makes: what runs in them, confined how, and what values change."""

from collections.abc import Callable, Mapping

import pytest

import sharder
from tests.chart.rendering import Helm, Pod, find, pod_of
from tests.unit.webhook.reviews import exchange
from webhook.app import health_app

DIGEST = f"sha256:{'0a' * 32}"


def test_a_new_pod_comes_before_an_old_one_goes_unless_both_would_lead(helm: Helm) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    lone = {"replicaCount": 1, "config": {"leaderElection": {"leaderElect": False}}}
    for values, strategy in (({}, rolling), (lone, {"type": "Recreate"})):
        assert find(helm.template(values), "Deployment", "sharder").spec["strategy"] == strategy


@pytest.mark.parametrize("reason", [None, "starting"])
async def test_the_probes_ask_whether_it_lives_and_whether_it_is_ready(
    default: str, reason: str | None
) -> None:
    container, app = pod_of(default).container, health_app(lambda: reason)
    alive, ready = container.liveness_probe.http_get, container.readiness_probe.http_get

    live = await exchange(app, method="GET", path=alive.path)
    readiness = await exchange(app, method="GET", path=ready.path)

    assert (live.status, readiness.status) == (200, 503 if reason else 200)
    assert (alive.port, ready.port) == ("health", "health")


def test_who_is_not_ready_is_found_out_soon_and_killed_late(default: str) -> None:
    container = pod_of(default).container

    ready, alive = container.readiness_probe, container.liveness_probe

    assert ready.period_seconds * ready.failure_threshold <= 5
    assert alive.period_seconds * alive.failure_threshold >= 60


def test_the_token_is_given_to_the_pod_and_to_no_other_of_its_service_account(
    default: str,
) -> None:
    account = find(default, "ServiceAccount", "sharder")

    assert pod_of(default).spec.automount_service_account_token
    assert not account.automount_service_account_token


def test_the_program_reads_the_configuration_that_is_mounted(default: str) -> None:
    pod = pod_of(default)

    folder, _, file = pod.container.args[-1].rpartition("/")

    assert pod.mounted[folder].config_map == {"name": "sharder"}
    assert [*find(default, "ConfigMap", "sharder").data] == [file]


def test_what_is_written_stays_in_memory(default: str) -> None:
    pod = pod_of(default)

    writable = [mount.mount_path for mount in pod.container.volume_mounts if not mount.read_only]

    assert writable == ["/tmp"]  # noqa: S108 - the volume
    assert pod.mounted["/tmp"].empty_dir == {  # noqa: S108
        "medium": "Memory",
        "sizeLimit": "16Mi",
    }


def test_the_pod_is_confined(default: str) -> None:
    pod = pod_of(default)

    assert pod.spec.security_context == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert pod.container.security_context == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not pod.spec.enable_service_links


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({"repository": "r/s"}, f"r/s:{sharder.__version__}"),
        ({"repository": "r/s", "tag": "1"}, "r/s:1"),
        ({"repository": "r/s", "digest": DIGEST}, f"r/s@{DIGEST}"),
        ({"repository": "r/s", "tag": "1", "digest": DIGEST}, f"r/s@{DIGEST}"),
    ],
)
def test_the_image_is_that_of_the_version_unless_another_is_given(
    helm: Helm, image: dict[str, str], expected: str
) -> None:
    assert pod_of(helm.template({"image": image})).container.image == expected


AFFINITY: Mapping[str, object] = {"podAntiAffinity": {}}
REACHES: Mapping[str, tuple[object, Callable[[Pod], object], object]] = {
    "imagePullSecrets": ([{"name": "a"}], lambda p: p.spec.image_pull_secrets, ({"name": "a"},)),
    "image": (
        {"repository": "sharder", "pullPolicy": "Always"},
        lambda p: p.container.image_pull_policy,
        "Always",
    ),
    "serviceAccount": ({"name": "a"}, lambda p: p.spec.service_account_name, "a"),
    "resources": (
        {"limits": {"memory": "1Gi"}},
        lambda p: p.container.resources.limits,
        {"memory": "1Gi"},
    ),
    "terminationGracePeriodSeconds": (
        99,
        lambda p: p.spec.termination_grace_period_seconds,
        99,
    ),
    "podAnnotations": ({"a": "b"}, lambda p: p.metadata.annotations.get("a"), "b"),
    "podLabels": ({"a": "b"}, lambda p: p.metadata.labels.get("a"), "b"),
    "nodeSelector": ({"a": "b"}, lambda p: p.spec.node_selector, {"a": "b"}),
    "tolerations": (
        [{"operator": "Exists"}],
        lambda p: p.spec.tolerations,
        ({"operator": "Exists"},),
    ),
    "affinity": (AFFINITY, lambda p: p.spec.affinity, AFFINITY),
    "priorityClassName": ("a", lambda p: p.spec.priority_class_name, "a"),
    "podSecurityContext": (
        {"runAsUser": 1000},
        lambda p: p.spec.security_context.get("runAsUser"),
        1000,
    ),
    "securityContext": (
        {"runAsGroup": 1000},
        lambda p: p.container.security_context.get("runAsGroup"),
        1000,
    ),
    "commonLabels": ({"a": "b"}, lambda p: p.metadata.labels.get("a"), "b"),
    "commonAnnotations": ({"a": "b"}, lambda p: p.metadata.annotations.get("a"), "b"),
    "extraArgs": (["--a"], lambda p: p.container.args[-1], "--a"),
    "extraEnv": (
        [{"name": "A", "value": "b"}],
        lambda p: p.container.env[-1],
        {"name": "A", "value": "b"},
    ),
    "extraVolumes": (
        [{"name": "a", "hostPath": {"path": "/a"}}],
        lambda p: p.spec.volumes[-1].host_path,
        {"path": "/a"},
    ),
    "extraVolumeMounts": (
        [{"name": "tmp", "mountPath": "/a"}],
        lambda p: p.container.volume_mounts[-1].mount_path,
        "/a",
    ),
    "hostNetwork": (True, lambda p: p.spec.host_network, True),
    "dnsPolicy": ("Default", lambda p: p.spec.dns_policy, "Default"),
}
"""By the value that is set: to what, where it shows in the pod, and as what."""


@pytest.mark.parametrize("name", REACHES)
def test_a_value_reaches_the_pod(helm: Helm, default: str, name: str) -> None:
    value, shown, expected = REACHES[name]

    assert shown(pod_of(helm.template({name: value}))) == expected
    assert shown(pod_of(default)) != expected


@pytest.mark.parametrize(
    ("values", "policy"),
    [
        ({}, ""),
        ({"hostNetwork": True}, "ClusterFirstWithHostNet"),
        ({"hostNetwork": True, "dnsPolicy": "Default"}, "Default"),
    ],
)
def test_on_the_network_of_the_host_the_names_of_the_cluster_are_still_resolved(
    helm: Helm, values: Mapping[str, object], policy: str
) -> None:
    assert pod_of(helm.template(values)).spec.dns_policy == policy
