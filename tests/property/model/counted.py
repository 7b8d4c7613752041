"""Everyday life of a ring whose strategy sticks: ceilings, pins, closed shards, late counts."""

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from sharder.core.names import CORDONED_ANNOTATION, EVACUATE_ANNOTATION, GroupResource, ShardName
from tests.property.model.account import owner_of
from tests.property.model.cluster import Place
from tests.property.model.counting import MAIN, PIN
from tests.property.model.machine import (
    Everyday,
    fates,
    names,
    places,
    replicas,
)
from tests.property.model.mishaps import close
from tests.property.model.sharders import Fate
from tests.property.model.shards import DURATION
from tests.property.model.world import PERSON, PLACES, World
from tests.support.values_placement import bounded

capacities = st.sampled_from([None, None, 2, 3])
low_capacities = st.sampled_from([1, 2])
closures = st.sampled_from([None, CORDONED_ANNOTATION, EVACUATE_ANNOTATION])
pins: st.SearchStrategy[str | None] = st.none() | names


class Counted(Everyday):
    """Bounded loads."""

    @initialize(steps=st.integers(0, 30), capacity=capacities)
    def begin(self, steps: int, capacity: int | None) -> None:
        self.world = World(skews={}, placement=bounded(per_shard=capacity))
        self._let_work(steps)

    @rule(capacity=capacities, closed=st.none() | names)
    def people_edit_the_ring(self, capacity: int | None, closed: ShardName | None) -> None:
        """Its ceilings, and the shards that get new objects."""
        self.world.set_capacity(capacity)
        for name, shard in self.world.shards.items():
            annotation = CORDONED_ANNOTATION if name == closed else None
            close(self.world.cluster, shard.ref, annotation)

    @rule(name=names, annotation=closures)
    def a_shard_is_closed(self, name: ShardName, annotation: str | None) -> None:
        close(self.world.cluster, self.world.shards[name].ref, annotation)

    @rule(is_paused=st.booleans())
    def people_pause_the_ring(self, is_paused: bool) -> None:
        self.world.cluster.pause(is_paused=is_paused)

    @rule(place=places, shard=names, replica=replicas)
    def an_object_moves_for_balance(self, place: Place, shard: ShardName, replica: int) -> None:
        self.world.sharders[replica].direct(*place, shard)

    @rule(place=places, pin=pins)
    def people_pin_an_object(self, place: Place, pin: str | None) -> None:
        self.world.write_labels(*place, {PIN: pin}, writer=PERSON)

    @rule(pin=pins)
    def people_pin_all_objects(self, pin: str | None) -> None:
        for place in PLACES:
            self.people_pin_an_object(place, pin)

    @rule(place=places)
    def people_edit_an_object(self, place: Place) -> None:
        """In a way that does not matter for placement."""
        self.world.write_labels(
            *place, {"example.com/edited": str(self.world.cluster.revision)}, writer=PERSON
        )

    @rule(capacity=low_capacities, steps=st.integers(0, 12), number=st.integers(0, 9))
    def there_is_room_again(self, capacity: int, steps: int, number: int) -> None:
        """While the first sharder drains what exceeds the ceilings."""
        self.world.set_capacity(capacity)
        self.time_passes(1)
        self.a_sharder_resyncs(0, steps + 1, Fate.ARRIVES)
        self.people_delete_an_object(number)
        self.world.sharders[0].counting.show_all()
        self.world.go_on_without_shards()

    @rule(low=low_capacities, capacity=capacities)
    def ceilings_fall_and_rise(self, low: int, capacity: int | None) -> None:
        """Before any shard has released its excess."""
        for each in (low, capacity):
            self.world.set_capacity(each)
            self.time_passes(1)
            self.world.go_on_without_shards()

    @rule(steps=st.integers(1, 12), capacity=capacities)
    def old_news_arrive(self, steps: int, capacity: int | None) -> None:
        """The first sharder has written what other clients wrote a moment before."""
        self.world.set_capacity(capacity)
        self.time_passes(1)
        for place in PLACES:
            self.people_edit_an_object(place)
        self.a_sharder_resyncs(0, steps, Fate.ARRIVES)
        for _ in range(len(PLACES)):
            for resource in MAIN:
                self.world.sharders[0].count(resource, 1)

    @rule(count=st.integers(1, 4), capacity=capacities)
    def people_pin_objects_where_they_are(self, count: int, capacity: int | None) -> None:
        for place in PLACES[:count]:
            if place in self.world.cluster.objects:
                self.people_pin_an_object(place, owner_of(self.world.cluster.objects[place]))
        self.world.set_capacity(capacity)

    @rule(name=names, steps=st.integers(1, 8))
    def a_lost_shard_returns(self, name: ShardName, steps: int) -> None:
        """While the first sharder is giving its objects away."""
        self.the_ring_changes(name, "dies", steps)
        self.a_shard_starts(name)
        self.time_passes(DURATION + 1)
        self.world.go_on_without_shards()

    @rule(number=st.integers(0, 9))
    def people_delete_an_object(self, number: int) -> None:
        present = [place for place in self.world.cluster.objects if place[0] in MAIN]
        if number < len(present):
            self.world.delete(*present[number])

    @rule(many=st.integers(1, 3), replica=replicas)
    def people_create_more(self, many: int, replica: int) -> None:
        """In no time, by one replica."""
        self.world.webhook_serves(replica)
        for _ in range(many):
            self.world.create(*PLACES[0], {}, writer=PERSON)

    @rule(place=places)
    def a_request_is_refused(self, place: Place) -> None:
        """After admission, by another webhook; the object can be created a moment later."""
        self.world.refuse(lambda: self.world.create(*place, {}, writer=PERSON))

    @rule(name=names)
    def an_acknowledgement_is_refused(self, name: ShardName) -> None:
        self.world.refuse(lambda: self.world.acknowledge(self.world.shards[name]))

    @rule(replica=replicas)
    def a_sharder_counts_late(self, replica: int) -> None:
        self.world.sharders[replica].counting.is_slow = True

    @rule(replica=replicas, resource=st.sampled_from(MAIN), many=st.integers(1, 9))
    def a_sharder_counts_a_little(self, replica: int, resource: GroupResource, many: int) -> None:
        self.world.sharders[replica].count(resource, many)

    @rule(replica=replicas, number=st.integers(0, 4))
    def an_object_is_deleted_unseen(self, replica: int, number: int) -> None:
        """The sharder lists anew what there is."""
        self.people_delete_an_object(number)
        self.world.sharders[replica].reconnect(lists_anew=True)

    @rule(replica=replicas)
    def a_sharder_counts_in_time(self, replica: int) -> None:
        self.world.sharders[replica].counting.is_slow = False
        self.world.sharders[replica].counting.show_all()

    @rule(replica=replicas, fate=fates)
    def a_sharder_begins_a_pass_and_counts(self, replica: int, fate: Fate) -> None:
        """It is shown what it has done itself while it goes on."""
        sharder = self.world.sharders[replica]
        for resource in MAIN:
            sharder.resync(fate)
            sharder.count(resource, 1)
