"""Whether the controllers that work behind proxies can be shards, and do no more than that."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import Final

from sharder.core.api.cluster import Pod
from sharder.core.diagnosis.finding import Finding, fail, ok, warn
from sharder.core.diagnosis.shards import MAX_NAMED
from sharder.core.names import ObjectRef, RingName
from sharder.core.texts import counted, named

PROXIES: Final = "proxies"

HANDOVER_SECONDS: Final = 20
"""What a handover at the end can take, in addition to the controller's own time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyPod:
    """A pod with a proxy."""

    ref: ObjectRef
    account: ObjectRef
    container: str
    """The name of the proxy."""
    is_sidecar: bool
    """Whether the proxy starts before the controller, and stops after it."""
    is_ready: bool
    grace_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxied:
    """What was read about the proxied controllers of a ring."""

    pods: Sequence[ProxyPod] = ()
    lacking: Mapping[ObjectRef, str] = field(default_factory=dict)
    """The rules to add, by ServiceAccount."""
    outside: Sequence[str] = ()
    """What they watch besides the resources of the ring."""
    tied: Sequence[str] = ()
    """Those of them that control main objects of the ring, or are controlled by them."""


def proxy_pod(pod: Pod, ring: RingName) -> ProxyPod | None:
    """Return a pod that has a proxy for a ring, None if it has none."""
    spec, namespace = pod.spec, pod.metadata.namespace
    for each in (*(spec.init_containers or ()), *spec.containers):
        words = each.args or ()
        if ring in words and words[0] == "proxy":
            statuses = pod.status.init_container_statuses or ()
            return ProxyPod(
                ref=pod.metadata.ref,
                account=ObjectRef(namespace, spec.service_account_name),
                container=each.name,
                is_sidecar=each.restart_policy == "Always",
                is_ready=any(status.ready for status in statuses if status.name == each.name),
                grace_seconds=spec.termination_grace_period_seconds,
            )
    return None


def proxies(found: Proxied) -> Iterator[Finding]:
    """Yield whether the proxied controllers of a ring, if there are any, can be its shards."""
    if found.pods:
        lacking = [
            fail(PROXIES, f"ServiceAccount {account}: {rules}")
            for account, rules in found.lacking.items()
        ]
        faults = [*_of_pods(found.pods), *lacking, *_of_watches(found)]
        yield from faults or [ok(PROXIES, f"{counted(len(found.pods), 'pod')} ready")]


def _of_pods(pods: Sequence[ProxyPod]) -> Iterator[Finding]:
    if plain := [pod for pod in pods if not pod.is_sidecar]:
        advice = "use what sharder inject prints, on Kubernetes 1.29 or later"
        yield fail(PROXIES, f"no native sidecar in {_named(plain)}", advice)
    elif late := [pod for pod in pods if not pod.is_ready]:
        yield warn(PROXIES, f"not ready: {_named(late)}", run=(*_logs(late),))
    if short := [pod for pod in pods if pod.grace_seconds <= HANDOVER_SECONDS]:
        advice = f"add {HANDOVER_SECONDS} to what the controller needs"
        message = f"terminationGracePeriodSeconds is too short in {_named(short)}"
        yield warn(PROXIES, message, advice)


def _of_watches(found: Proxied) -> Iterator[Finding]:
    if found.tied:
        why = "they control objects of the ring, or are controlled by them"
        advice = "add them to the ring, or let the controller not handle them"
        message = f"the controller also watches {named(found.tied)}"
        yield fail(PROXIES, message, advice, why=why)
    if others := [each for each in found.outside if each not in found.tied]:
        message = f"every shard handles what its controller also watches: {named(others)}"
        yield ok(PROXIES, message)


def _named(pods: Sequence[ProxyPod]) -> str:
    return named([str(pod.ref) for pod in pods], MAX_NAMED)


def _logs(pods: Sequence[ProxyPod]) -> Iterator[str]:
    for pod in pods[:MAX_NAMED]:
        namespace, name = map(quote, pod.ref)
        yield f"kubectl logs -n {namespace} {name} -c {quote(pod.container)}"
