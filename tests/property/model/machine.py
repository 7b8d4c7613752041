"""The protocol as a state machine: every rule is something that may happen, in any order."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from sharder.core.names import GroupResource
from tests.property.model.cluster import Place
from tests.property.model.core import ShardName, Writer
from tests.property.model.mishaps import Mishap, end_twin, remove_label, write_twin
from tests.property.model.rest import come_to_rest
from tests.property.model.sharders import Fate
from tests.property.model.world import (
    GITOPS,
    NAMES,
    NEIGHBOUR,
    OUTSIDE,
    PERSON,
    PLACES,
    TWIN,
    World,
)
from tests.support.values import DRAIN, NEXT, OWNER, SECRETS, WIDGETS

skews = st.sampled_from([0, 0, -20, 20, -40, 40, -3600, 3600])
names = st.sampled_from(NAMES)
places = st.sampled_from(PLACES)
replicas = st.sampled_from([0, 0, 0, 1])
writers = st.sampled_from([GITOPS, GITOPS, NEIGHBOUR, PERSON])
mishaps = st.sampled_from([*Mishap, Mishap.MADE_ANEW, Mishap.MADE_ANEW])
fates = st.sampled_from([Fate.ARRIVES] * 5 + list(Fate))
resources = st.sampled_from([WIDGETS, SECRETS])
edits: st.SearchStrategy[dict[str, str | None]] = st.sampled_from(
    [
        {OWNER: None},
        {DRAIN: None},
        {OWNER: None, DRAIN: None},
        {OWNER: None, DRAIN: None, "example.com/edited": "true"},
        {DRAIN: "true"},
        {OWNER: "no-such-shard"},
        *({OWNER: name, DRAIN: None} for name in NAMES),
        {"example.com/edited": "true"},
        {"example.com/edited": None},
    ]
)
starts: st.SearchStrategy[dict[str, str]] = st.sampled_from(
    [{}, {OWNER: "no-such-shard"}, *({OWNER: name} for name in NAMES), {DRAIN: "true"}]
)


class Everyday(RuleBasedStateMachine):
    """Shards that come and go, sharders, an API server and people."""

    world: World

    def _let_work(self, steps: int) -> None:
        for name in NAMES[:2]:
            self.world.shards[name].start()
        self.time_passes(2)
        for resource, ref in (*PLACES, OUTSIDE):
            self.world.create(resource, ref, {}, writer=PERSON)
        self.everybody_sees_everything()
        for name in NAMES[:2]:
            self.a_shard_creates_children(name, True)
        self.time_passes(31)
        self.the_ring_changes(NAMES[2], "joins", steps)

    @rule(name=names)
    def a_shard_starts(self, name: ShardName) -> None:
        self.world.shards[name].start()
        self.world.shards[name].live(self.world.now)
        self.world.shards[name].is_cut_off = False

    @rule(name=names)
    def a_shard_leaves(self, name: ShardName) -> None:
        self.world.shards[name].leave(self.world.now)

    @rule(name=names)
    def a_shard_is_killed(self, name: ShardName) -> None:
        self.world.shards[name].kill()

    @rule(name=names)
    def a_shard_reconciles(self, name: ShardName) -> None:
        self.world.shards[name].look(self.world.now)

    @rule(name=names, stamps=st.booleans())
    def a_shard_creates_children(self, name: ShardName, stamps: bool) -> None:
        shard = self.world.shards[name]
        if shard.is_reachable:
            for uid in sorted(shard.busy):
                self.world.create_child(shard, uid, stamps=stamps)

    @rule(name=names, fate=fates)
    def a_shard_processes_drains(self, name: ShardName, fate: Fate) -> None:
        self.world.acknowledge(self.world.shards[name], fate)

    @rule(name=names, what=st.sampled_from(["joins", "leaves", "dies"]), steps=st.integers(0, 30))
    def the_ring_changes(self, name: ShardName, what: str, steps: int) -> None:
        """A shard comes or goes, and the first sharder is in the middle of what that brings."""
        match what:
            case "joins":
                self.a_shard_starts(name)
                self.time_passes(1)
            case "leaves":
                self.a_shard_leaves(name)
                self.time_passes(1)
            case _:
                self.a_shard_is_killed(name)
                self.time_passes(31)
                self.a_sharder_cares_for_leases(0)
                self.time_passes(1)
        self.a_sharder_resyncs(0, steps, Fate.ARRIVES)

    @rule(place=places, labels=starts, is_new=st.booleans())
    def people_create_an_object(self, place: Place, labels: dict[str, str], is_new: bool) -> None:
        """It takes another's place, or has its name generated where there is one already."""
        if not is_new:
            self.world.delete(*place)
        self.world.create(*place, labels, writer=PERSON)

    @rule(replica=st.none() | replicas)
    def the_webhook_is_served_by(self, replica: int | None) -> None:
        self.world.webhook_serves(replica)

    @rule(replica=replicas)
    def a_sharder_restarts(self, replica: int) -> None:
        self.world.sharders[replica].start(self.world.now)

    @rule(replica=replicas)
    def a_sharder_cares_for_leases(self, replica: int) -> None:
        self.world.sharders[replica].care()

    @rule(replica=replicas, steps=st.integers(1, 12), fate=fates)
    def a_sharder_resyncs(self, replica: int, steps: int, fate: Fate) -> None:
        """Some steps of a pass; the last one meets its fate."""
        for _ in range(steps - 1):
            self.world.sharders[replica].resync()
        self.world.sharders[replica].resync(fate)

    @rule(replica=replicas, resource=resources, steps=st.integers(1, 8), fate=fates)
    def a_sharder_hands_over(
        self, replica: int, resource: GroupResource, steps: int, fate: Fate
    ) -> None:
        for _ in range(steps - 1):
            self.world.sharders[replica].hand_over(resource)
        self.world.sharders[replica].hand_over(resource, fate)

    @rule(seconds=st.sampled_from([1, 2, 5, 9, 15, 31]))
    def time_passes(self, seconds: int) -> None:
        self.world.let_pass(seconds)

    @rule()
    def everybody_sees_everything(self) -> None:
        """Objects move on: the sharder passes over all of them, shards acknowledge and begin."""
        self.world.go_on()

    @invariant()
    def no_object_has_two_workers(self) -> None:
        self.world.expect_one_worker()

    @override
    def teardown(self) -> None:
        come_to_rest(self.world)


class Protocol(Everyday):
    """And users who meddle, outages, wrong clocks: all that can happen."""

    @initialize(
        wrong=st.fixed_dictionaries(dict.fromkeys((*NAMES, "first", "second"), skews)),
        steps=st.integers(0, 30),
    )
    def begin(self, wrong: dict[str, int], steps: int) -> None:
        """Let two shards work for a while; as it begins, a third one has just joined."""
        self.world = World(skews=wrong)
        self._let_work(steps)

    # What happens to shards

    @rule(name=names)
    def a_shard_is_paused(self, name: ShardName) -> None:
        shard = self.world.shards[name]
        if shard.is_running and shard.paused_at is None:
            shard.paused_at = self.world.now

    @rule(name=names)
    def a_shard_resumes(self, name: ShardName) -> None:
        if self.world.shards[name].paused_at is not None:
            self.world.shards[name].resume(self.world.now)

    @rule(name=names)
    def a_shard_is_cut_off(self, name: ShardName) -> None:
        self.world.shards[name].is_cut_off = True

    @rule(name=names)
    def a_shard_is_reconnected(self, name: ShardName) -> None:
        self.world.shards[name].is_cut_off = False
        self.world.shards[name].live(self.world.now)

    @precondition(lambda self: self.world.late_acknowledgements)
    @rule()
    def a_late_acknowledgement_arrives(self) -> None:
        self.world.receive_late_acknowledgement()

    # What people do

    @rule(name=names)
    def a_lease_is_deleted(self, name: ShardName) -> None:
        if self.world.shards[name].ref in self.world.cluster.leases:
            self.world.cluster.delete_lease(self.world.shards[name].ref)

    @rule(name=names)
    def a_lease_loses_its_label(self, name: ShardName) -> None:
        remove_label(self.world.cluster, self.world.shards[name].ref)

    @rule()
    def a_second_lease_bears_the_name_of_a_shard(self) -> None:
        self.world.twin_lives = True
        write_twin(self.world.cluster, TWIN, self.world.now)

    @rule(is_deleted=st.booleans())
    def the_second_lease_is_renewed_no_more(self, is_deleted: bool) -> None:
        self.world.twin_lives = False
        if is_deleted:
            end_twin(self.world.cluster, TWIN)

    @rule(place=places, edit=edits, writer=writers, sends=st.none() | names)
    def people_edit_an_object(
        self, place: Place, edit: dict[str, str | None], writer: Writer, sends: str | None
    ) -> None:
        direction = {} if sends is None else {NEXT: sends}
        self.world.write_labels(*place, edit, direction, writer=writer)

    @rule(edit=edits, writer=writers)
    def people_edit_objects_without_owner(
        self, edit: dict[str, str | None], writer: Writer
    ) -> None:
        for place in PLACES:
            if self.world.is_unowned(place):
                self.world.write_labels(*place, edit, writer=writer)

    @rule(place=places)
    def people_forge_an_acknowledgement(self, place: Place) -> None:
        self.world.write_labels(*place, {OWNER: None, DRAIN: None}, writer=GITOPS)

    @rule(replica=replicas, edit=edits, writer=writers)
    def people_edit_what_is_about_to_be_written(
        self, replica: int, edit: dict[str, str | None], writer: Writer
    ) -> None:
        move = self.world.sharders[replica].intended
        if move is not None:
            place = move.resource, move.obj.metadata.ref
            self.world.write_labels(*place, edit, writer=writer)

    @rule(name=names, mishap=mishaps, replica=replicas)
    def a_lease_comes_to_grief(self, name: ShardName, mishap: Mishap, replica: int) -> None:
        """Meanwhile its shard is cut off and works on; the sharder learns of it, and resyncs."""
        self.world.mishandle_lease(self.world.shards[name], mishap, self.world.sharders[replica])

    @rule()
    def another_webhook_begins_to_remove_labels(self) -> None:
        self.world.cluster.is_meddled_with = True

    @rule()
    def another_webhook_stops_to_remove_labels(self) -> None:
        self.world.cluster.is_meddled_with = False

    # What happens to sharders

    @rule(replica=replicas)
    def a_sharder_is_cut_off(self, replica: int) -> None:
        self.world.sharders[replica].is_cut_off = True

    @rule(replica=replicas)
    def the_watches_of_a_sharder_fall_silent(self, replica: int) -> None:
        self.world.sharders[replica].is_stalled = True

    @rule(replica=replicas, lists_anew=st.booleans())
    def a_sharder_is_reconnected(self, replica: int, lists_anew: bool) -> None:
        self.world.sharders[replica].reconnect(lists_anew=lists_anew)

    # What sharders do

    @rule(replica=replicas)
    def a_sharder_cares_for_leases_by_an_old_view(self, replica: int) -> None:
        self.world.sharders[replica].is_stalled = True
        self.time_passes(31)
        self.world.sharders[replica].care()

    @rule(replica=replicas)
    def a_late_write_arrives(self, replica: int) -> None:
        if self.world.sharders[replica].late:
            self.world.sharders[replica].receive_late()

    @rule(seconds=st.sampled_from([5, 20, 60]))
    def the_api_server_is_away(self, seconds: int) -> None:
        self.world.endure_outage(seconds)
