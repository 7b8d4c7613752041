"""Hold the Lease of a shard, and end the process when the Lease may be lost."""

import os
import threading
import time
from datetime import UTC, datetime

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

DURATION, DEADLINE, RETRY = 15, 10, 2


class ShardLease:
    """The Lease of one shard."""

    def __init__(self, *, ring: str, shard: str, namespace: str) -> None:
        settings = client.Configuration.get_default_copy()
        settings.retries = 0  # a request that hangs must not hide that the deadline has passed
        self._api = client.CoordinationV1Api(client.ApiClient(settings))
        self._shard, self._namespace = shard, namespace
        self._labels = {"alpha.sharding.timebertt.dev/controllerring": ring}
        self._stopping = threading.Event()
        self._renewal = threading.Thread(target=self._renew_until_stopped, daemon=True)

    def acquire(self) -> None:
        """Take the Lease once no other process holds it, and keep renewing it.

        The shard's own name in the Lease counts as another process, which may still run.
        """
        lease = self._read()
        while lease is not None and lease.spec.holder_identity:
            seen = lease.spec.renew_time
            time.sleep(lease.spec.lease_duration_seconds)
            lease = self._read()
            if lease is not None and lease.spec.renew_time == seen:
                break  # expired
        now = _now()
        spec = {
            "holderIdentity": self._shard,
            "leaseDurationSeconds": DURATION,
            "acquireTime": now,
            "renewTime": now,
        }
        if lease is None:
            metadata = {"name": self._shard, "labels": self._labels}
            body = {"metadata": metadata, "spec": spec}
            self._api.create_namespaced_lease(self._namespace, body)
        else:
            self._patch(lease, spec)
        self._renewal.start()

    def release(self) -> None:
        """Release the Lease; call this after all work has ended."""
        self._stopping.set()
        self._renewal.join()
        lease = self._read()
        if lease is not None and lease.spec.holder_identity == self._shard:
            self._patch(lease, {"holderIdentity": "", "leaseDurationSeconds": 1})

    def _renew_until_stopped(self) -> None:
        renewed = time.monotonic()
        while not self._stopping.wait(RETRY):
            sent = time.monotonic()
            try:
                lease = self._read()
                if lease is None or lease.spec.holder_identity != self._shard:
                    os._exit(1)  # another process holds it: stop all work at once
                self._patch(lease, {"renewTime": _now()})
                renewed = sent
            except (ApiException, HTTPError):
                pass  # retried until the deadline
            if time.monotonic() - renewed > DEADLINE - RETRY:
                os._exit(1)

    def _read(self) -> client.V1Lease | None:
        try:
            return self._api.read_namespaced_lease(
                self._shard, self._namespace, _request_timeout=RETRY
            )
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def _patch(self, lease: client.V1Lease, spec: dict[str, object]) -> None:
        version = lease.metadata.resource_version
        body = {"metadata": {"resourceVersion": version, "labels": self._labels}, "spec": spec}
        self._api.patch_namespaced_lease(
            self._shard, self._namespace, body, _request_timeout=RETRY
        )


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
