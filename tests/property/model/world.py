"""What the state machine drives: a cluster, shards, sharders, people, and one true time."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Final

from msgspec import structs

from sharder.core.api.meta import ObjectMeta, OwnerReference, PartialObject
from sharder.core.api.ring import PlacementSpec
from sharder.core.errors import Conflict, Rejected
from sharder.core.names import GroupResource, ObjectRef
from tests.property.model.cluster import Cluster, Place
from tests.property.model.core import ShardName, Writer
from tests.property.model.laws import Laws, expect
from tests.property.model.mishaps import Mishap, mishandle, twin_of, write_twin
from tests.property.model.sharders import Fate, Sharder
from tests.property.model.shards import RENEW_DEADLINE, Letter, Shard
from tests.support.values import CONFIGMAPS, DRAIN, OWNER, SECRETS, WIDGETS, obj
from tests.support.values_placement import bounded

NAMES: Final = tuple(ShardName(name) for name in ("op-1", "op-11", "op-2"))
"""The first two share tokens of the hash ring."""

WIDGET_NAMES: Final = ("w-1", "w-4", "w-5")
SECRET_NAMES: Final = ("s-0", "s-9")
"""All but the first are wanted by the third shard as soon as it joins the other two."""
PLACES: Final[tuple[Place, ...]] = (
    *((WIDGETS, ObjectRef("default", name)) for name in WIDGET_NAMES),
    *((SECRETS, ObjectRef("default", name)) for name in SECRET_NAMES),
)
OUTSIDE: Final[Place] = (WIDGETS, ObjectRef("kube-system", "w-4"))
"""An object in a namespace that the ring does not select."""

PERSON: Final = Writer(username="alice")
GITOPS: Final = Writer(username="system:serviceaccount:gitops:controller")
NEIGHBOUR: Final = Writer(username="system:serviceaccount:default:other")
"""A ServiceAccount of the namespace in which the shards live."""

TWIN: Final = twin_of(NAMES[0])


class World:
    """All there is."""

    def __init__(
        self, *, skews: Mapping[str, int], placement: PlacementSpec | None = None
    ) -> None:
        """`skews` (seconds) are those of the wall clocks of shards and sharders, by name."""
        self.now = 0
        self.counts = placement is not None
        """Whether the ring's strategy sticks."""
        self.cluster = Cluster()
        if placement is not None:
            self.cluster.place_by(placement)
        self.shards = {
            name: Shard(name, self.cluster, skew=timedelta(seconds=skews.get(name, 0)))
            for name in NAMES
        }
        self.laws = Laws(self.cluster, self.shards)
        self.sharders = [
            Sharder(
                self.cluster, origin=1000.0 * number, skew=timedelta(seconds=skews.get(name, 0))
            )
            for number, name in enumerate(("first", "second"), start=1)
        ]
        self.late_acknowledgements: list[tuple[Shard, Letter]] = []
        self.twin_lives = False
        """Whether the second Lease of a shard's name is renewed."""
        self.webhook_serves(0)

    def webhook_serves(self, replica: int | None) -> None:
        """Let that replica answer for the webhook, or none."""
        self.cluster.webhook = None if replica is None else self.sharders[replica].answer

    def let_pass(self, seconds: int) -> None:
        """Let all shards and sharders live for some seconds."""
        for _ in range(seconds):
            self._tick()

    def _tick(self) -> None:
        self.now += 1
        self.laws.now = self.now
        for shard in self.shards.values():
            shard.live(self.now)
        if self.twin_lives and not all(s.is_cut_off for s in self.sharders):
            write_twin(self.cluster, TWIN, self.now)
        for sharder in self.sharders:
            sharder.tick(self.now)
        self.expect_one_worker()

    def expect_one_worker(self) -> None:
        """S1b: on no object two shards may work at the same time."""
        workers: dict[str, ShardName] = {}
        for shard in self.shards.values():
            for uid in shard.busy if shard.may_act(self.now) else ():
                other = workers.setdefault(uid, shard.name)
                expect("S1b", other == shard.name, f"{other} and {shard.name} work on {uid}")

    def create(
        self, resource: GroupResource, ref: ObjectRef, labels: Mapping[str, str], *, writer: Writer
    ) -> None:
        """Create an object, or one with a generated name where the name is taken."""
        fresh = obj(resource, ref.name, namespace=ref.namespace, labels=labels)
        if (resource, ref) in self.cluster.objects:
            if ref.name != "w-1" or len(self.cluster.objects_of(WIDGETS)) > len(WIDGET_NAMES) + 2:
                return
            meta = structs.replace(fresh.metadata, name="", generate_name="w-")
            fresh = structs.replace(fresh, metadata=meta)
        self.cluster.create(resource, fresh, writer)

    def delete(self, resource: GroupResource, ref: ObjectRef) -> None:
        """Delete an object and, as the garbage collector does, what it controls."""
        gone = self.cluster.objects.get((resource, ref))
        if gone is None:
            return
        self.cluster.delete(resource, ref)
        for child in self.cluster.objects_of(CONFIGMAPS):
            controller = child.metadata.controller
            if controller is not None and controller.uid == gone.metadata.uid:
                self.cluster.delete(CONFIGMAPS, child.metadata.ref)

    def is_unowned(self, place: Place) -> bool:
        """Return whether the object is there and bears no owner."""
        current = self.cluster.objects.get(place)
        return current is not None and not current.metadata.label(OWNER)

    def write_labels(
        self,
        resource: GroupResource,
        ref: ObjectRef,
        labels: Mapping[str, str | None],
        annotations: Mapping[str, str] | None = None,
        *,
        writer: Writer,
    ) -> None:
        """Change labels of an object as a client that ignores the protocol.

        Past the webhook nothing is promised to the shard that works on it: it takes note within
        its own watch delay, which the model sets to nothing.  Where it could not even do that, or
        where admission takes the writer's word for an acknowledgement, the write is left out.
        """
        current = self.cluster.objects.get((resource, ref))
        if current is None:
            return
        owner = self.shards.get(ShardName(current.metadata.label(OWNER)))
        is_unseen = owner is not None and owner.is_at_work and not owner.is_reachable
        if self.cluster.webhook is None and is_unseen:
            return
        if current.metadata.has_label(DRAIN) and writer is not GITOPS:
            return
        meta = current.metadata
        kept = {k: v for k, v in (meta.labels or {}).items() if k not in labels}
        added = {key: value for key, value in labels.items() if value is not None}
        changed = structs.replace(
            meta,
            labels=kept | added,
            annotations={**(meta.annotations or {}), **(annotations or {})},
        )
        self.cluster.update(resource, structs.replace(current, metadata=changed), writer)
        if self.cluster.webhook is None and owner is not None:
            owner.look(self.now)

    def create_child(self, shard: Shard, uid: str, *, stamps: bool) -> None:
        """Let a shard create what an object of its own controls, once."""
        resource, owner = shard.cache.get(uid, (WIDGETS, PartialObject()))
        if resource != SECRETS or uid not in shard.busy or not shard.may_act(self.now):
            return
        current = self.cluster.objects.get((resource, owner.metadata.ref))
        if current is None or current.metadata.uid != uid:
            return  # the garbage collector would delete it
        reference = OwnerReference(
            api_version="v1", kind="Secret", name=owner.metadata.name, uid=uid, controller=True
        )
        meta = ObjectMeta(
            name=f"of-{owner.metadata.name}",
            namespace=owner.metadata.namespace,
            labels={OWNER: shard.name} if stamps else None,
            owner_references=[reference],
        )
        child = PartialObject(api_version="v1", kind="ConfigMap", metadata=meta)
        try:
            self.cluster.create(CONFIGMAPS, child, shard.writer)
        except Conflict:
            return

    def acknowledge(self, shard: Shard, fate: Fate = Fate.ARRIVES) -> None:
        """Let a shard acknowledge all that is draining; after a lost answer it knows nothing."""
        for uid in sorted(shard.cache):
            if not shard.is_reachable or not shard.may_act(self.now):
                return
            request = shard.acknowledge(uid)
            if request is None or fate is Fate.IS_LOST:
                continue
            if fate is Fate.IS_LATE:
                self.late_acknowledgements.append((shard, request))
                continue
            shard.send(request)

    def receive_late_acknowledgement(self) -> None:
        shard, request = self.late_acknowledgements.pop(0)
        shard.send(request)

    def go_on(self) -> None:
        """Let the first sharder and all shards do what there is to do now."""
        self.go_on_without_shards()
        for shard in self.shards.values():
            shard.live(self.now)
            self.acknowledge(shard)

    def go_on_without_shards(self) -> None:
        """Let the first sharder do what there is to do now."""
        self.sharders[0].finish()

    def set_capacity(self, capacity: int | None) -> None:
        """Edit the ring: so many objects on each shard, None: as many as it takes."""
        self.cluster.place_by(bounded(per_shard=capacity))

    def refuse(self, write: Callable[[], None]) -> None:
        """Let a webhook that is called after the sharder's refuse what this writes."""
        self.cluster.is_refusing = True
        try:
            with suppress(Rejected):
                write()
        finally:
            self.cluster.is_refusing = False

    def mishandle_lease(self, shard: Shard, mishap: Mishap, sharder: Sharder) -> None:
        """Let a Lease meet a mishap while its shard is cut off and works on.

        All of it is over, and the shard has stopped, before anything else happens: who deletes a
        Lease and makes a new one without holder says that the shard has released it, and a sharder
        which starts then, or has not seen the shard hold it, knows no better.
        """
        if shard.ref not in self.cluster.leases or not shard.is_reachable:
            return
        if mishap is Mishap.MADE_ANEW and not sharder.view.holds(self.cluster.leases[shard.ref]):
            return
        if mishap is Mishap.DELETED_UNSEEN:
            sharder.is_stalled = True
            self.let_pass(31)
        shard.is_cut_off = True
        mishandle(self.cluster, shard.ref, mishap)
        if mishap is Mishap.DELETED_AT_START:
            sharder.start(self.now)
        if not sharder.is_cut_off:
            sharder.reconnect(lists_anew=mishap is Mishap.DELETED_UNSEEN)
        sharder.finish()
        self.let_pass(RENEW_DEADLINE)

    def endure_outage(self, seconds: int) -> None:
        """Let the API server be away for all clients, and come back."""
        reachable = [shard for shard in self.shards.values() if not shard.is_cut_off]
        listening = [sharder for sharder in self.sharders if not sharder.is_cut_off]
        for shard in reachable:
            shard.is_cut_off = True
        for sharder in listening:
            sharder.is_cut_off = True
        self.let_pass(seconds)
        for shard in reachable:
            shard.is_cut_off = False
        for sharder in listening:
            sharder.reconnect(lists_anew=False)
