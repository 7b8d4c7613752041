"""The row `load` of the benchmark: what users do, and what is read off the log."""

import json
from collections import defaultdict
from datetime import UTC, datetime
from math import inf

from hack.bench.websites.history import AUTHOR, SHARDER, Gap, History
from hack.bench.websites.timetable import Scenario, timetable

OWNER = "shard.alpha.sharding.timebertt.dev/websites"
SHARD = "system:serviceaccount:shards:operator"


class Log:
    """An audit log; each write gets the next version."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def write(
        self,
        at: float,
        owner: str,
        *,
        by: str = AUTHOR,
        verb: str = "patch",
        what: str = "websites",
        code: int = 200,
        generation: int = 1,
        seen: int = 0,
        guard: int = 0,
    ) -> None:
        """Add a write of `by` with a precondition, after which `owner` owns the object."""
        resource, _, subresource = what.partition("/")
        self.add(
            at,
            by,
            verb=verb,
            objectRef={"resource": resource, "subresource": subresource,
                       "namespace": "one", "name": "site"},
            responseStatus={"code": code},
            requestObject={"metadata": {"resourceVersion": str(guard), "labels": {OWNER: owner}}},
            responseObject={
                "metadata": {"labels": {OWNER: owner} if owner else {}, "generation": generation,
                             "resourceVersion": str(len(self.lines) + 1)},
                "status": {"observedGeneration": seen, "phase": "Ready"},
            },
        )  # fmt: skip

    def add(self, at: float, by: str, **fields: object) -> None:
        """Add an event; a name without a colon is that of a shard's pod."""
        is_pod = by != AUTHOR and ":" not in by
        user = {"username": SHARD, "extra": {"authentication.kubernetes.io/pod-name": [by]}}
        time = datetime.fromtimestamp(at, UTC).isoformat()
        event = {
            "auditID": str(len(self.lines)),
            "requestURI": "/",
            "user": user if is_pod else {"username": by},
            "requestReceivedTimestamp": time,
            "stageTimestamp": time,
            **fields,
        }
        self.lines.append(json.dumps(event).encode() + b"\n")

    def read(self, **stops: float) -> History:
        """Read it, with the times at which shards were asked to stop."""
        history = History({"a": inf, "b": inf, **stops}, "websites", began=5, ended=90)
        history.read(self.lines, until=100)
        return history


def site(*children: str) -> Log:
    """Return the log of a new website on shard a, with children on shard a."""
    log = Log()
    log.write(10, "a", verb="create")
    for child in children:
        log.write(11, "a", verb="create", what=child, by="a")
    return log


def test_users_ask_for_a_website_only_while_it_exists() -> None:
    play = Scenario(seconds=100, existing=10, creates=1, deletes=0.2, changed_every=7)
    methods = defaultdict[str, list[str]](list)

    early, during = timetable(play, 3)
    for entry in [*early, *during]:
        name = json.loads(entry.body)["metadata"]["name"] if entry.method == "POST" else ""
        methods[f"{entry.path}/{name}".rstrip("/")].append(entry.method)

    websites = [asked for path, asked in methods.items() if "/websites/" in path]
    assert len(websites) == 110
    assert sum("DELETE" in asked for asked in websites) == 20
    for asked in websites:
        assert asked[0] == "POST"
        assert "DELETE" not in asked[:-1]


def test_a_website_has_no_owner_from_the_stop_of_its_shard_until_another_owns_it() -> None:
    log = site()
    log.write(23, "b", by=SHARDER)

    assert log.read(a=20).unowned == [Gap(20, 3, by_loss=True)]


def test_a_website_without_owner_label_has_no_owner() -> None:
    log = site()
    log.write(30, "", by="a")
    log.write(31, "b", by=SHARDER)

    assert log.read().unowned == [Gap(30, 1, by_loss=False)]


def test_a_website_is_apart_until_its_last_child_is_where_it_is() -> None:
    log = site("services", "configmaps")
    log.write(22, "b", by=SHARDER, what="services")
    log.write(23, "b", by=SHARDER)
    log.write(25, "b", by=SHARDER, what="configmaps")

    assert log.read(a=20).apart == [Gap(20, 5, by_loss=True)]


def test_writes_count_in_the_order_of_their_versions() -> None:
    log = site()
    log.write(24, "b", by=SHARDER)
    log.write(23, "b", by="b")

    assert log.read(a=20).foreign == []


def test_a_write_to_the_website_of_another_shard_is_foreign() -> None:
    log = site("services")
    log.write(12, "a", by="b")
    log.write(13, "a", by="b", what="services")
    log.write(14, "b", by="b", what="configmaps", verb="create")
    log.write(15, "a", by="b", code=409)

    assert log.read().foreign == [
        "00:00:12.000000 b patch websites one/site of a",
        "00:00:13.000000 b patch services one/site of a",
        "00:00:14.000000 b create configmaps one/site of a",
    ]


def test_a_patch_without_answer_counts_if_the_next_write_shows_its_effect() -> None:
    log = site("services")
    log.write(12, "b", by=SHARDER, what="services", code=504, guard=2)
    log.write(14, "b", by=SHARDER, guard=1)
    log.write(16, "b", by="b", what="services")

    history = log.read()
    assert (history.foreign, history.apart) == ([], [Gap(12, 2, by_loss=False)])


def test_a_patch_without_answer_that_is_repeated_had_no_effect() -> None:
    log = site("services")
    log.write(12, "b", by=SHARDER, what="services", code=504, guard=2)
    log.write(15, "c", by=SHARDER, what="services", guard=2)

    assert log.read(c=inf).apart == [Gap(15, 85, by_loss=False)]


def test_an_acknowledgement_is_not_foreign() -> None:
    log = site()
    log.write(12, "", by="a")

    assert log.read().foreign == []


def test_a_write_of_a_shard_that_was_asked_to_stop_is_late() -> None:
    log = site()
    log.write(19, "a", by="a")
    log.write(21, "a", by="a")

    history = log.read(a=20)
    assert (history.late, history.foreign) == (1, [])


def test_a_move_counts_once_even_if_the_website_had_no_owner_between() -> None:
    log = site()
    for at, owner in ((12, ""), (13, "b"), (14, "b")):
        log.write(at, owner, by=SHARDER)

    assert log.read().moved == 1


def test_a_change_is_done_when_its_generation_or_a_later_one_is_ready() -> None:
    log = Log()
    log.write(10, "a", verb="create", generation=1)
    log.write(12, "a", generation=2)
    log.write(13, "a", generation=3)
    log.write(20, "a", by="a", what="websites/status", seen=2)
    log.write(22, "a", by="a", what="websites/status", seen=3)

    assert log.read().reconciles == [10, 8, 9]
