"""Who a shard is, from its environment."""

from base64 import urlsafe_b64encode
from dataclasses import replace
from datetime import timedelta
from math import inf

import msgspec
import pytest

from sharder.core.errors import ConfigError
from sharder.core.names import (
    CAPACITY_ANNOTATION,
    HOSTNAME_LABEL,
    POOL_ANNOTATION,
    REGION_LABEL,
    REVISION_LABEL,
    RING_LABEL,
    WEIGHT_ANNOTATION,
    ZONE_LABEL,
    RingName,
)
from sharder.sdk import LeaseTiming, Settings
from sharder.shard.settings import pod_uid_in, settings_from

SOUND = Settings(name="shard-a", namespace="default")


@pytest.mark.parametrize(
    ("environment", "name", "namespace"),
    [
        ({}, "node-1", "apps"),
        ({"POD_NAME": "pod-1", "POD_NAMESPACE": "team"}, "pod-1", "team"),
        ({"POD_NAME": "pod-1", "SHARD_NAME": "s", "SHARD_NAMESPACE": "shards"}, "s", "shards"),
    ],
)
def test_the_shards_own_variables_come_before_the_pods_and_those_before_the_host(
    environment: dict[str, str], name: str, namespace: str
) -> None:
    settings = settings_from(environment, host="Node-1", namespace="apps")

    assert settings == Settings(name=name, namespace=namespace)
    assert settings.lease_labels(RingName("demo")) == {RING_LABEL: "demo"}
    assert settings.lease_annotations() == {}
    assert settings.drain_on_stop_seconds == 0
    settings.check("demo")


def token(claims: object) -> str:
    payload = urlsafe_b64encode(msgspec.json.encode(claims)).decode().rstrip("=")
    return f"e30.{payload}.signature"


def test_the_uid_of_the_pod_stands_in_the_service_account_s_token() -> None:
    claims = {"sub": "x", "kubernetes.io": {"namespace": "ns", "pod": {"name": "p", "uid": "u-1"}}}

    assert pod_uid_in(token(claims)) == "u-1"


@pytest.mark.parametrize(
    "text",
    ["", "opaque", "a.b", "a.!.c", "a.é.c", token({}), token([]), token({"kubernetes.io": {}})],
)
def test_a_token_that_is_bound_to_no_pod_has_no_uid(text: str) -> None:
    assert pod_uid_in(text) == ""


def test_the_variable_says_which_pod_it_is_before_the_token() -> None:
    for uid, environment in {"u-2": {"POD_UID": "u-2"}, "u-1": {}}.items():
        found = settings_from(environment, host="h", namespace="ns", pod_uid="u-1")
        assert found.pod_uid == uid


def test_times_are_durations_or_seconds() -> None:
    environment = {
        "SHARD_LEASE_DURATION": "1m",
        "SHARD_RENEW_DEADLINE": "40s",
        "SHARD_RETRY_PERIOD": "1500ms",
        "SHARD_DRAIN_GRACE": "600s",
        "SHARD_STOP_GRACE": "1h30m",
        "SHARD_DRAIN_ON_STOP": "2m30s",
        "SHARD_WORKERS": "4",
        "SHARD_HTTP_ADDRESS": ":8080",
        "KUBECONFIG": "/a:/b",
    }
    plain = {"SHARD_LEASE_DURATION": "60", "SHARD_RETRY_PERIOD": "1.5", "SHARD_DRAIN_GRACE": "600"}

    settings = settings_from(environment, host="h", namespace="n")

    assert settings_from(environment | plain, host="h", namespace="n") == settings
    assert (settings.workers, settings.http_address, settings.kubeconfig) == (4, ":8080", "/a:/b")
    assert settings.lease == LeaseTiming(lease_duration=60, renew_deadline=40, retry_period=1.5)
    assert settings.drain_grace == timedelta(minutes=10)
    assert settings.stop_grace == timedelta(minutes=90)
    assert settings.drain_on_stop_seconds == 150


def test_the_lease_says_where_and_what_the_shard_is() -> None:
    environment = {
        "SHARD_REGION": "r",
        "SHARD_ZONE": "z",
        "SHARD_HOSTNAME": "h",
        "SHARD_REVISION": "abc",
        "SHARD_POOL": "p",
        "SHARD_CAPACITY": "objects=10",
        "SHARD_WEIGHT": "2",
    }

    settings = settings_from(environment, host="h", namespace="n")

    assert settings.lease_labels(RingName("demo")) == {
        RING_LABEL: "demo",
        REGION_LABEL: "r",
        ZONE_LABEL: "z",
        HOSTNAME_LABEL: "h",
        REVISION_LABEL: "abc",
    }
    assert settings.lease_annotations() == {
        POOL_ANNOTATION: "p",
        CAPACITY_ANNOTATION: "objects=10",
        WEIGHT_ANNOTATION: "2",
    }


def test_all_malformed_variables_are_named_together() -> None:
    environment = {
        "SHARD_WORKERS": "many",
        "SHARD_DRAIN_GRACE": "inf",
        "SHARD_RENEW_DEADLINE": "20",
        "SHARD_LEASE_DURATION": "1500ms",
        "SHARD_DRAIN_ON_STOP": "2 minutes",
    }

    with pytest.raises(ConfigError) as caught:
        settings_from(environment, host="h", namespace="n")

    message = str(caught.value)
    parts = (
        "SHARD_WORKERS: 'many' is not a whole",
        "SHARD_DRAIN_GRACE: 'inf'",
        ": '1500ms' is not a whole",
        "SHARD_DRAIN_ON_STOP: '2 min",
    )
    assert all(part in message for part in parts)
    with pytest.raises(ConfigError, match=r"RETRY_PERIOD: .*, not 5s > 10s > 2s: set"):
        settings_from({"SHARD_LEASE_DURATION": "5"}, host="h", namespace="n")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (replace(SOUND, name="x" * 64), "shard name"),
        (replace(SOUND, name=""), "shard name"),
        (replace(SOUND, name="shardlease-controller"), "reserved"),
        (replace(SOUND, namespace=""), "SHARD_NAMESPACE or POD_NAMESPACE"),
        (replace(SOUND, lease=LeaseTiming(lease_duration=3601)), "1s to 3600s"),
        (replace(SOUND, workers=0), "workers"),
        (replace(SOUND, drain_on_stop=-1), "drain_on_stop"),
        (replace(SOUND, http_address="8080"), "http_address: '8080' is neither host:port"),
        (replace(SOUND, drain_on_stop=inf), "drain_on_stop"),
        (replace(SOUND, drain_on_stop=timedelta(seconds=-5)), "but is -5s"),
        (replace(SOUND, zone="not a label"), ZONE_LABEL),
    ],
)
def test_settings_with_which_no_shard_can_run_are_refused(
    settings: Settings, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        settings.check("demo")
