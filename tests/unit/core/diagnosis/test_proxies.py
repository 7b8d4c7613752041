"""What is found of controllers behind proxies."""

import pytest
from msgspec import convert

from sharder.core.api.cluster import Pod
from sharder.core.diagnosis.finding import Level
from sharder.core.diagnosis.proxies import Proxied, proxies, proxy_pod
from sharder.core.names import ObjectRef, RingName
from sharder.proxy.inject import injected

RING = RingName("jobs")
CONTROLLER = {"name": "controller", "args": ["--leader-elect"]}
ACCOUNT = ObjectRef("demo", "job-controller")


def pod(*, is_ready: bool = True, **spec: object) -> Pod:
    """Return a pod of what inject prints, with other fields."""
    plain = {"serviceAccountName": ACCOUNT.name, "containers": [CONTROLLER]}
    manifest = {"kind": "Deployment", "spec": {"template": {"spec": plain}}}
    printed = injected(manifest, "sharder:1", [RING])["spec"]["template"]["spec"]
    status = {"initContainerStatuses": [{"name": "sharder-proxy", "ready": is_ready}]}
    meta = {"namespace": ACCOUNT.namespace, "name": "a"}
    return convert({"metadata": meta, "spec": {**printed, **spec}, "status": status}, Pod)


def found(given: Pod, **more: object) -> list[tuple[Level, str]]:
    """Return levels and lines of the findings about a pod."""
    at = proxy_pod(given, RING)
    assert at is not None
    return [(each.level, each.said) for each in proxies(Proxied(pods=[at], **more))]  # type: ignore[arg-type]


def test_what_inject_prints_is_in_order() -> None:
    assert found(pod()) == [(Level.OK, "1 pod ready")]
    assert list(proxies(Proxied())) == []


def test_pods_without_a_proxy_of_the_ring_are_not_judged() -> None:
    assert proxy_pod(pod(), RingName("other")) is None
    assert proxy_pod(pod(initContainers=None), RING) is None


@pytest.mark.parametrize(
    ("given", "level", "said"),
    [
        (pod(is_ready=False), Level.WARN, "kubectl logs -n demo a -c sharder-proxy"),
        (pod(terminationGracePeriodSeconds=20), Level.WARN, "too short in demo/a => add 20"),
        (
            pod(initContainers=[], containers=[{"name": "p", "args": ["proxy", RING]}]),
            Level.FAIL,
            "no native sidecar in demo/a",
        ),
    ],
)
def test_a_pod_that_cannot_hand_over_is_found(given: Pod, level: Level, said: str) -> None:
    (finding,) = found(given)
    assert finding[0] is level
    assert said in finding[1]


def test_missing_rights_and_watches_outside_the_ring_are_found() -> None:
    lacking, outside = {ACCOUNT: "rights are missing, add x"}, ["cronjobs.batch", "secrets"]
    rights, tied, harmless = found(
        pod(), lacking=lacking, outside=outside, tied=["cronjobs.batch"]
    )

    assert rights == (Level.FAIL, f"ServiceAccount {ACCOUNT}: rights are missing, add x")
    assert tied[0] is Level.FAIL
    assert "also watches cronjobs.batch:" in tied[1]
    assert harmless == (Level.OK, "every shard handles what its controller also watches: secrets")
