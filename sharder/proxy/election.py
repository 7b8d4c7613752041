"""The Lease of the controller's own leader election, answered from memory.

So each controller leads, without a flag, and the proxy sees whether it lives: it renews this
Lease.  When the shard loses its own Lease, the process that leads sees another leader, and ends
itself; the next one can lead.
"""

from math import inf
from typing import Final

import msgspec

from sharder.core.names import ObjectRef
from sharder.proxy.bodies import lease_in
from sharder.proxy.targets import Target, Verb
from sharder.proxy.write_gate import Refused
from sharder.runtime.clock import Clock
from sharder.shard.rights import LEASES

USUAL_SECONDS: Final = 15.0
"""The duration of Locks that do not say theirs: what users of client-go set."""
_JSON: Final = "application/json"
_TAKEN: Final = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    # The next process waits for so long; the one before needs longer to end itself.
    "spec": {"holderIdentity": "another-shard", "leaseDurationSeconds": 2},
}


class Lock:
    """The Lease that the controller writes: unless named, the first that it reads or renews.

    A leader on client-go renews without a read.  Who renews here before anybody has read led
    behind another proxy: it has to end itself, for its caches are of that time.
    """

    def __init__(self, clock: Clock, ref: ObjectRef | None = None) -> None:
        self._clock = clock
        self._ref = ref
        self._is_new = True
        """Whether nobody has asked for it here."""
        self._stored = b"", ""
        self._holder = self._banned = ""
        self._seconds = USUAL_SECONDS
        """The duration of the Lock: who could not renew it for so long does not lead any more."""
        self._renewed: float | None = None
        self._tried = -inf, -inf
        """When the banned process tried to lead: first, and last."""

    @property
    def is_used(self) -> bool:
        """Whether the controller elects a leader."""
        return bool(self._holder or self._banned)

    def is_late(self, seconds: float) -> bool:
        """Return whether the controller elects a leader, and none has renewed for `seconds`."""
        at, limit = self._renewed, max(seconds, self._seconds)
        return self.is_used and (at is None or self._clock.monotonic() - at > limit)

    def lose(self) -> None:
        """Let the process that leads now not lead again, so that it ends itself.

        It tries for less than the Lock's duration, from the moment when it can run.  Who tries for
        longer did not know that it led, or is another process of the same name.
        """
        if self._holder:
            self._banned, self._tried = self._holder, (-inf, -inf)
        self._stored, self._holder, self._renewed = (b"", ""), "", None

    def answer(
        self, target: Target, body: bytes, content_type: str
    ) -> tuple[int, bytes, str] | None:
        """Return status, body and content type; None if the request is about another object."""
        verbs = {Verb.GET, Verb.CREATE, Verb.PUT, Verb.WRITE}
        if target.resource != LEASES or target.verb not in verbs:
            return None
        lease = lease_in(body, content_type)
        ref = ObjectRef(target.namespace, target.ref.name or lease.metadata.name)
        renews = target.verb in {Verb.PUT, Verb.WRITE} and lease.spec.holder_identity
        if self._ref is None and (target.verb is Verb.GET or renews):
            self._ref = ref
        if ref != self._ref:
            return None
        is_first, self._is_new = self._is_new, False
        if target.verb is Verb.GET:
            return self._shown(ref)
        holder, now = lease.spec.holder_identity or "", self._clock.monotonic()
        seconds = float(lease.spec.lease_duration_seconds or USUAL_SECONDS)
        if renews and is_first:
            self._banned, self._seconds = holder, seconds
        if not holder and self._holder and lease.metadata.name == ref.name:
            self._stored = body, content_type  # it gives the Lock up: the next one need not wait
            return 200, body, content_type
        if not holder or self._is_banned(holder, now):
            return _said(Refused(409, "the shard of this controller has lost its Lease"))
        self._stored, self._holder, self._renewed = (body, content_type), holder, now
        self._seconds = seconds
        return 201 if target.verb is Verb.CREATE else 200, body, content_type

    def _is_banned(self, holder: str, now: float) -> bool:
        if holder != self._banned:
            return False
        first, last = self._tried
        self._tried = (first if now - last <= self._seconds else now), now
        if now - self._tried[0] > self._seconds:
            self._banned = ""
        return bool(self._banned)

    def _shown(self, ref: ObjectRef) -> tuple[int, bytes, str]:
        body, content_type = self._stored
        if body:
            return 200, body, content_type
        if not self._banned:
            return _said(Refused(404, "nobody leads yet"))
        meta = {"name": ref.name, "namespace": ref.namespace, "resourceVersion": "1"}
        return 200, msgspec.json.encode({**_TAKEN, "metadata": meta}), _JSON


def _said(refused: Refused) -> tuple[int, bytes, str]:
    return refused.code, msgspec.json.encode(refused.status), _JSON
