"""What users do with websites: the same requests at the same times for the same scenario."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from hack.bench.load import Entry

APIS: Final = {
    "websites": "/apis/load.example.com/v1",
    "deployments": "/apis/apps/v1",
    "configmaps": "/api/v1",
    "services": "/api/v1",
    "ingresses": "/apis/networking.k8s.io/v1",
}
"""The resources of websites and of their children, which have the same name."""
EARLY_RATE: Final = 12.0
RIPE_SECONDS: Final = 30.0
"""The least age of a website that is deleted."""
COLLECT_SECONDS: Final = 1.0
"""From the deletion of a website to that of its children: no garbage collector runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What happens in one run; times are in seconds since its start."""

    seconds: float
    existing: int = 0
    """Websites that are created before the run."""
    creates: float = 0.0
    """Websites per second."""
    deletes: float = 0.0
    """Websites per second."""
    changed_every: float = 60.0
    """Seconds between two changes of one website."""
    losses: Sequence[float] = ()
    """When a pod is deleted, and replaced at once."""
    rollouts: Sequence[float] = ()
    """When all pods begin to be replaced, one after the other."""


def space(number: int) -> str:
    """Return the name of a namespace with websites."""
    return f"websites-{number:02d}"


def timetable(play: Scenario, namespaces: int) -> tuple[Sequence[Entry], Sequence[Entry]]:
    """Return the requests before a run and those of the run, both ordered by time."""
    rng = random.Random(1)  # noqa: S311 - no secret
    times = [-RIPE_SECONDS] * play.existing
    times += [number / play.creates for number in range(round(play.seconds * play.creates))]
    born = {f"{space(rng.randrange(namespaces))}/site-{n:04d}": at for n, at in enumerate(times)}
    doomed = dict[str, float]()
    for number in range(round(play.seconds * play.deletes)):
        at = number / play.deletes
        ripe = [site for site in born if site not in doomed and born[site] + RIPE_SECONDS <= at]
        if ripe:
            doomed[rng.choice(ripe)] = at
    changed = {
        site: play.changed_every * rng.random() if at < 0 else at + play.changed_every
        for site, at in born.items()
    }
    early = [_create(n / EARLY_RATE, site) for n, site in enumerate(born) if born[site] < 0]
    during = [_create(at, site) for site, at in born.items() if at >= 0]
    for site, at in changed.items():
        left = max(0.0, doomed.get(site, play.seconds) - at)
        times = [at + n * play.changed_every for n in range(ceil(left / play.changed_every))]
        during += [_change(at, site) for at in times]
    during += [entry for site, at in doomed.items() for entry in _delete(at, site)]
    return early, sorted(during, key=lambda entry: entry.at)


def _path(resource: str, site: str) -> str:
    namespace, name = site.split("/")
    return f"{APIS[resource]}/namespaces/{namespace}/{resource}/{name}"


def _create(at: float, site: str) -> Entry:
    path, name = _path("websites", site).rsplit("/", 1)
    kind = {"apiVersion": "load.example.com/v1", "kind": "Website"}
    body = {**kind, "metadata": {"name": name}, "spec": {"theme": "first"}}
    return Entry(at=at, method="POST", path=path, body=json.dumps(body))


def _change(at: float, site: str) -> Entry:
    body = json.dumps({"spec": {"theme": f"theme-{at:.3f}"}})
    kind = "application/merge-patch+json"
    return Entry(at=at, method="PATCH", path=_path("websites", site), type=kind, body=body)


def _delete(at: float, site: str) -> Iterator[Entry]:
    for resource in APIS:
        due = at if resource == "websites" else at + COLLECT_SECONDS
        yield Entry(at=due, method="DELETE", path=_path(resource, site))
