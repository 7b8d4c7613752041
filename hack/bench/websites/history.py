"""What has happened to websites and their children, read off the audit log of the API server."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

import msgspec

from hack.audit_log import AuditLog, Event
from hack.bench.websites.timetable import APIS
from hack.playground import SYSTEM
from sharder.core.api.meta import Json, ObjectMeta
from sharder.core.names import RingName, owner_label

SHARDER: Final = f"system:serviceaccount:{SYSTEM}:sharder"
AUTHOR: Final = "admin"
WRITES: Final = ("create", "update", "patch", "delete")
SLO_SECONDS: Final = 5.0
"""In which a change is to be worked on, after the thesis on kubernetes-controller-sharding."""


def rules() -> Sequence[Json]:
    """Return what the log has: all writes to websites and children, all requests of sharders."""
    groups = sorted({path.split("/")[2] if "apis" in path else "" for path in APIS.values()})
    resources: Json = [
        {"group": group, "resources": [*APIS, "websites/status"]} for group in groups
    ]
    return [
        {"level": "RequestResponse", "verbs": [*WRITES], "resources": resources,
         "omitManagedFields": True},
        {"level": "Metadata", "users": [SHARDER]},
    ]  # fmt: skip


class _Progress(msgspec.Struct, frozen=True, rename="camel"):
    observed_generation: int = 0
    phase: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _Asked(msgspec.Struct, frozen=True, rename="camel"):
    labels: dict[str, str | None] | None = None
    resource_version: str = ""


class _Patch(msgspec.Struct, frozen=True):
    metadata: _Asked = _Asked()


class _Event(Event, frozen=True, rename="camel"):
    audit_id: str = msgspec.field(default="", name="auditID")
    request_object: msgspec.Raw = msgspec.Raw(b"{}")
    response_object: _Object = _Object()

    @property
    def began(self) -> float:
        return self.request_received_timestamp.timestamp()

    @property
    def code(self) -> str:
        """The code of an answer that refuses."""
        return str(self.response_status.code) if self.response_status.code >= 400 else ""

    @property
    def what(self) -> str:
        ref = self.object_ref
        return f"{ref.resource}/{ref.subresource}".strip("/") or self.request_uri.split("?")[0]

    @property
    def site(self) -> tuple[str, str]:
        """The website, whose name its children have too."""
        name = self.object_ref.name or self.response_object.metadata.name
        return self.object_ref.namespace, name

    @property
    def asked(self) -> _Asked:
        """The metadata in a patch of a sharder."""
        return msgspec.json.decode(self.request_object, type=_Patch).metadata

    @property
    def order(self) -> tuple[int, float]:
        """The place of a write among all."""
        return int(self.response_object.metadata.resource_version or 0), self.at


class Gap(NamedTuple):
    """A time in which a fact about a website did not hold."""

    since: float
    seconds: float
    by_loss: bool
    """Whether it began when a shard was asked to stop."""


@dataclass(slots=True)
class _Fact:
    gaps: list[Gap]
    since: float | None = None
    by_loss: bool = False

    def see(self, now: float, *, holds: bool, loss: bool = False) -> None:
        if self.since is not None and (holds or (loss and not self.by_loss)):
            self.gaps.append(Gap(self.since, max(now - self.since, 0.0), self.by_loss))
            self.since = None
        if not holds and self.since is None:
            self.since, self.by_loss = now, loss


@dataclass(slots=True)
class _Site:
    owned: _Fact
    together: _Fact
    owner: str = ""
    last_owner: str = ""
    children: dict[str, str] = field(default_factory=dict)
    """Owners by resource."""
    waiting: dict[int, float] = field(default_factory=dict)
    """When the generations were made that are not ready yet."""


class History:
    """One run, of which costs and what users did count from `began` to `ended`."""

    def __init__(
        self, stops: Mapping[str, float], ring: str, *, began: float, ended: float
    ) -> None:
        """Know when each shard was asked to stop; without a ring, websites have no owners."""
        self._stops = stops
        self._label = owner_label(RingName(ring)) if ring else ""
        self._began, self._ended = began, ended
        self._sites: dict[tuple[str, str], _Site] = {}
        self.requests = Counter[tuple[str, str, str, str]]()
        """Of the sharders: by pod, verb, resource, and code of a refusal."""
        self.unowned: list[Gap] = []
        self.apart: list[Gap] = []
        self.creates: list[float] = []
        """Seconds until the API server had answered."""
        self.reconciles: list[float] = []
        """Seconds from each change of a website until it was ready again."""
        self.foreign: list[str] = []
        """Writes of shards to what another, or none, owned."""
        self.moved = self.late = self.already_exists = 0

    def read(self, log: AuditLog, until: float) -> None:
        """Read the whole log, which ends at `until`."""
        found = list(log.events(_Event))
        # A watch is logged at its begin and at its end.
        asked = {event.audit_id: event for event in found if event.user.username == SHARDER}
        self.requests.update(
            (event.pod, event.verb, event.what, event.code)
            for event in asked.values()
            if self._is_in(event)
        )
        writes = [e for e in found if e.object_ref.resource in APIS and e.verb in WRITES]
        self.already_exists = sum(
            (event.verb, event.code, event.pod in self._stops) == ("create", "409", True)
            for event in writes
        )
        done = [event for event in writes if not event.code]
        lost = [e for e in writes if e.user.username == SHARDER and e.code >= "500"]
        done += list(self._effects(lost, done))
        ends = [(at, shard, ("", "")) for shard, at in self._stops.items() if at < inf]
        ends += [(e.at, "", e.site) for e in done if (e.verb, e.what) == ("delete", "websites")]
        self._replay([e for e in done if e.verb != "delete"], sorted(ends, reverse=True))
        for site in self._sites.values():
            waits = [until - at for at in site.waiting.values()]
            self.reconciles += [seconds for seconds in waits if seconds > SLO_SECONDS]
            for fact in (site.owned, site.together):
                fact.see(until, holds=True)
        self.unowned = [gap for gap in self.unowned if gap.since >= self._began]
        self.apart = [gap for gap in self.apart if gap.since >= self._began]

    def _effects(self, lost: Iterable[_Event], done: Iterable[_Event]) -> Iterator[_Event]:
        """Yield the patches of owners that nobody waited for, and that took effect nevertheless.

        The next write shows it: another patch with the same precondition, or the owner then.
        """
        known = defaultdict[object, list[_Event]](list)
        for write in sorted(done, key=lambda write: write.order):
            known[write.site, write.object_ref.resource].append(write)
        for write in lost:
            version, owner = (
                write.asked.resource_version,
                (write.asked.labels or {}).get(self._label),
            )
            if not version or not owner:
                continue
            later = (
                after.asked.resource_version != version
                if after.user.username == SHARDER
                else after.response_object.metadata.label(self._label) == owner
                for after in known[write.site, write.object_ref.resource]
                if after.order[0] > int(version)
            )
            if next(later, True):
                meta = ObjectMeta(labels={self._label: owner}, resource_version=version)
                yield msgspec.structs.replace(write, response_object=_Object(meta))

    def _is_in(self, event: _Event) -> bool:
        return self._began <= event.began < self._ended

    def _replay(
        self, writes: Iterable[_Event], ends: list[tuple[float, str, tuple[str, str]]]
    ) -> None:
        """Follow the writes in their order, and between them, by the clock, what ended."""
        for write in sorted(writes, key=lambda write: write.order):
            while ends and ends[-1][0] <= write.at:
                self._end(*ends.pop())
            self._apply(write)
        while ends:
            self._end(*ends.pop())

    def _end(self, now: float, shard: str, gone: tuple[str, str]) -> None:
        """End a shard, or else a website."""
        if not shard:
            self._sites.pop(gone, None)
            return
        for site in self._sites.values():
            if shard in (site.owner, *site.children.values()):
                self._see(site, now, lost=shard)

    def _apply(self, write: _Event) -> None:
        owner = write.response_object.metadata.label(self._label)
        resource = write.object_ref.resource
        if (resource, write.verb) == ("websites", "create"):
            site = _Site(_Fact(self.unowned), _Fact(self.apart), owner, owner)
            self._sites[write.site] = site
            self.creates += [write.at - write.began] * self._is_in(write)
        elif (known := self._sites.get(write.site)) is not None:
            site = known
        else:
            return  # a child that was written after its website had gone
        if write.pod in self._stops:
            before = site.children.get(resource) or site.owner
            if self._label and before != write.pod:
                what = f"{write.pod} {write.verb} {write.what} {'/'.join(write.site)} of {before}"
                self.foreign.append(f"{write.stage_timestamp:%T.%f} {what}")
            self.late += write.began > self._stops[write.pod]
        if resource == "websites":
            self._follow(site, write, owner)
        else:
            site.children[resource] = owner
        self._see(site, write.at)

    def _follow(self, site: _Site, write: _Event, owner: str) -> None:
        site.owner = owner
        if owner and owner != site.last_owner:
            self.moved += site.last_owner != "" and self._is_in(write)
            site.last_owner = owner
        if write.user.username == AUTHOR and self._is_in(write):
            site.waiting[write.response_object.metadata.generation] = write.at
        if write.object_ref.subresource == "status":
            done = msgspec.json.decode(write.response_object.status, type=_Progress)
            for generation in [n for n in site.waiting if n <= done.observed_generation]:
                if done.phase == "Ready":
                    self.reconciles.append(write.at - site.waiting.pop(generation))

    def _see(self, site: _Site, now: float, lost: str = "") -> None:
        owned = not self._label or now < self._stops.get(site.owner, 0.0)
        together = owned and all(child == site.owner for child in site.children.values())
        site.owned.see(now, holds=owned, loss=lost != "" and lost == site.owner)
        site.together.see(now, holds=together, loss=lost != "")
