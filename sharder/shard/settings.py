"""The settings of a shard, from the environment or from arguments (docs/sdk.md, "Settings")."""

import os
import socket
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Final

import msgspec

from sharder.core.errors import ConfigError
from sharder.core.leases.election import LeaseTiming
from sharder.core.leases.state import MAX_DURATION_SECONDS, MIN_DURATION_SECONDS
from sharder.core.names import (
    CAPACITY_ANNOTATION,
    HOSTNAME_LABEL,
    POOL_ANNOTATION,
    REGION_LABEL,
    REVISION_LABEL,
    RING_LABEL,
    SHARDER_IDENTITY,
    WEIGHT_ANNOTATION,
    ZONE_LABEL,
    RingName,
    is_label_value,
)
from sharder.core.texts import address_of, parse_time

_ACCOUNT_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""The file with a pod's namespace."""

_LABELS: Final = {
    "region": REGION_LABEL,
    "zone": ZONE_LABEL,
    "hostname": HOSTNAME_LABEL,
    "revision": REVISION_LABEL,
}
_ANNOTATIONS: Final = {
    "pool": POOL_ANNOTATION,
    "capacity": CAPACITY_ANNOTATION,
    "weight": WEIGHT_ANNOTATION,
}
"""What a shard says about itself on its Lease, each from a field of `Settings`."""

_ACCOUNT_TOKEN: Final = _ACCOUNT_NAMESPACE.with_name("token")
"""The file with the token of a pod's service account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings that can differ between replicas of a controller."""

    name: str = ""
    """The shard's name, which is its Lease's name and its objects' label; a label value."""
    namespace: str = ""
    """Where the Lease lives."""
    lease: LeaseTiming = field(default_factory=LeaseTiming)
    """How long the Lease lasts and how often it is renewed."""
    workers: int = 10
    """How many objects of each resource are reconciled at a time."""
    drain_grace: timedelta = timedelta(seconds=10)
    """How long a reconcile can continue while its object drains; then it is cancelled."""
    stop_grace: timedelta = timedelta(seconds=20)
    """How long reconciles can continue at a clean stop (a pod has 30 s by default)."""
    drain_on_stop: timedelta | float = timedelta(0)
    """How long (seconds) a clean stop waits until other shards have the objects; 0: not at all."""
    region: str = ""
    """Where the shard runs, for placements that spread over regions."""
    zone: str = ""
    """The same for zones."""
    hostname: str = ""
    """The same for nodes."""
    revision: str = ""
    """The controller's revision, for example the pod's pod-template-hash."""
    pool: str = ""
    """The pool (district) that the shard belongs to."""
    capacity: str = ""
    """The shard's capacity, for example `objects=6000,memory=8Gi`."""
    weight: str = ""
    """The shard's relative size, a number above 0."""
    pod_uid: str = ""
    """The uid of the shard's pod: a shard that restarts in its pod takes its own Lease at once."""
    http_address: str = "0"
    """Where to serve /healthz, /readyz and /metrics, such as `:8080`; `0`: nowhere."""
    kubeconfig: str = ""
    """Path, or several as kubectl takes them; empty: the pod's service account, else
    ~/.kube/config."""

    @property
    def drain_on_stop_seconds(self) -> float:
        """`drain_on_stop` in seconds."""
        given = self.drain_on_stop
        return given.total_seconds() if isinstance(given, timedelta) else given

    def lease_labels(self, ring: RingName) -> dict[str, str]:
        """Return the labels of the shard's Lease."""
        return {RING_LABEL: str(ring), **self._on_lease(_LABELS)}

    def lease_annotations(self) -> dict[str, str]:
        """Return the annotations of the shard's Lease."""
        return self._on_lease(_ANNOTATIONS)

    def _on_lease(self, keys: Mapping[str, str]) -> dict[str, str]:
        return {key: value for field, key in keys.items() if (value := getattr(self, field))}

    def check(self, ring: str) -> None:
        """Raise unless a shard of `ring` can run with these settings.

        Raises:
            ConfigError: the settings are invalid; the message names all problems.
        """
        labels = {"ring": ring, "shard name": self.name, **self._on_lease(_LABELS)}
        problems = [
            f"{what} {value!r} is not a valid label value (at most 63 characters of "
            "A-Z a-z 0-9 - _ .)"
            for what, value in labels.items()
            if not is_label_value(value)
        ]
        if self.name == SHARDER_IDENTITY:
            problems.append(f"shard name {self.name!r} is reserved for the sharder")
        if not self.namespace:
            problems.append(
                "the namespace of the Lease is unknown: set SHARD_NAMESPACE or POD_NAMESPACE"
            )
        duration, limits = self.lease.lease_duration, (MIN_DURATION_SECONDS, MAX_DURATION_SECONDS)
        if not limits[0] <= duration <= limits[1]:
            problems.append(
                f"the lease duration must be {limits[0]}s to {limits[1]}s, but is {duration}s"
            )
        if self.workers < 1:
            problems.append(f"workers must be at least 1, but is {self.workers}")
        if not 0 <= self.drain_on_stop_seconds < inf:
            problems.append(
                "drain_on_stop must be a finite time of 0s or more, "
                f"but is {self.drain_on_stop_seconds:g}s"
            )
        try:
            address_of(self.http_address)
        except ValueError as error:
            problems.append(f"http_address: {error}")
        if problems:
            raise ConfigError("; ".join(problems))


def local_settings() -> Settings:
    """Return the settings from the environment and the host of this process.

    Raises:
        ConfigError: variables are malformed; the message names all of them.
    """
    account = _ACCOUNT_NAMESPACE.read_text() if _ACCOUNT_NAMESPACE.is_file() else ""
    token = _ACCOUNT_TOKEN.read_text() if _ACCOUNT_TOKEN.is_file() else ""
    return settings_from(
        os.environ,
        host=socket.gethostname(),
        namespace=account.strip(),
        pod_uid=pod_uid_in(token),
    )


def pod_uid_in(token: str) -> str:
    """Return the uid of the pod that a service account's token is bound to, empty if to none.

    Source: KEP-1205, "Bound Service Account Tokens", claim `kubernetes.io`.
    """
    try:
        payload = token.split(".")[1]
        decoded = urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        claims = msgspec.json.decode(decoded, type=dict[str, msgspec.Raw])
        bound = msgspec.json.decode(claims["kubernetes.io"], type=dict[str, msgspec.Raw])
        return msgspec.json.decode(bound["pod"], type=dict[str, str]).get("uid", "")
    except (LookupError, ValueError):  # also a msgspec.DecodeError
        return ""


def settings_from(
    environment: Mapping[str, str], *, host: str, namespace: str, pod_uid: str = ""
) -> Settings:
    """Return the settings from environment variables; an empty variable counts as absent.

    Args:
        environment: The variables, as `VARIABLES` reads them.
        host: The default for the shard's name.
        namespace: The default for the namespace.
        pod_uid: The default for the uid of the pod.

    Raises:
        ConfigError: variables are malformed; the message names all of them.
    """
    given = dict[str, object]()
    problems = list[str]()
    for name, parse in VARIABLES.items():
        variable = f"SHARD_{name.upper()}"
        try:
            given |= {name: parse(text)} if (text := environment.get(variable)) else {}
        except ValueError as error:
            problems.append(f"{variable}: {error}")
    if problems:
        raise ConfigError("; ".join(problems))

    def first(*names: str, default: str) -> str:
        return next(filter(None, map(environment.get, names)), default)

    named = {
        "name": first("SHARD_NAME", "POD_NAME", default=host.lower()),
        "namespace": first("SHARD_NAMESPACE", "POD_NAMESPACE", default=namespace),
        "pod_uid": first("POD_UID", default=pod_uid),
        "kubeconfig": first("KUBECONFIG", default=""),
    }
    try:
        return msgspec.convert({**given, **named, "lease": given}, Settings)
    except msgspec.ValidationError as error:  # of the times of the Lease
        variables = ", ".join(f"SHARD_{each.name.upper()}" for each in fields(LeaseTiming))
        raise ConfigError(f"{variables}: {str(error).partition(' - at ')[0]}") from error


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a whole number") from error


def _seconds(text: str) -> float:
    return parse_time(text).total_seconds()


def _whole_seconds(text: str) -> int:
    seconds = _seconds(text)
    if not seconds.is_integer():
        raise ValueError(f"{text!r} is not a whole number of seconds")
    return int(seconds)


VARIABLES: Final[Mapping[str, Callable[[str], object]]] = {
    "lease_duration": _whole_seconds,
    "renew_deadline": _seconds,
    "retry_period": _seconds,
    "workers": _number,
    "drain_grace": parse_time,
    "stop_grace": parse_time,
    "drain_on_stop": parse_time,
    "http_address": str,
    **dict.fromkeys((*_LABELS, *_ANNOTATIONS), str),
}
"""How the variable `SHARD_…` of each field of `Settings` and `LeaseTiming` is read."""
