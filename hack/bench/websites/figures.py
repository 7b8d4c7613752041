"""What the row `load` says about a run."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil
from statistics import fmean
from typing import Final

from hack.bench.websites.history import SLO_SECONDS, History
from hack.bench.websites.timetable import APIS

API_CPU, CPU, CALLS, REQUESTS = "API server CPU, s", "sharders CPU, s", "calls", "requests"
PER_CREATE, PER_MOVE, MEMORY = "calls per create", "requests per move", "resident, MB"
PER_MINUTE, OF_A_CORE = "requests per minute", "of a core, %"
QUEUE, IN_TIME, FOREIGN = "queue p99, s", f"within {SLO_SECONDS:g} s, %", "by non-owners"
UNOWNED, APART = "without owner", "apart"

_EVALUATED: Final = "apiserver_admission_match_condition_evaluation_seconds"
_METRICS: Final = {
    CALLS: r'^apiserver_admission_webhook_request_total{.*type="admit".*} (\S+)$',
    "conditions": rf"^{_EVALUATED}_count{{.*}} (\S+)$",
    "conditions, s": rf"^{_EVALUATED}_sum{{.*}} (\S+)$",
}


def counted(scrape: bytes) -> dict[str, float]:
    """Return what the API server has counted since its start."""
    found = {
        what: re.findall(metric, scrape.decode(), re.MULTILINE)
        for what, metric in _METRICS.items()
    }
    return {what: sum(float(value) for value in values) for what, values in found.items()}


def costs(
    history: History, cpu: Mapping[str, float], memory: Sequence[float], seconds: float
) -> dict[str, float]:
    """Return what all had to do."""
    values = {API_CPU: cpu["kube-apiserver"], "etcd CPU, s": cpu["etcd"]}
    if not memory:
        return values
    values |= {CPU: sum(cpu.values()) - sum(values.values()), MEMORY: max(memory)}
    values[REQUESTS] = history.requests.total()
    writes, each = Counter[str](), Counter[str]()
    for (pod, verb, what, _), number in history.requests.items():
        each[pod] += number
        writes[pod] += number * (what == "leases" and verb in ("patch", "update"))
    for replica, (pod, _) in zip(("leader", "standby"), writes.most_common(), strict=False):
        values[f"{replica} {PER_MINUTE}"] = each[pod] / seconds * 60
        values[f"{replica} {OF_A_CORE}"] = cpu[pod] / seconds * 100
    return values


def served(history: History, queued: Mapping[float, int]) -> dict[str, float]:
    """Return what users and authors of the operator notice, with the two SLOs of the thesis."""
    waits = history.reconciles
    return {
        "create, ms": fmean(history.creates) * 1e3,
        "reconcile p99, s": quantile(waits, 0.99),
        QUEUE: in_histogram(queued, 0.99),
        IN_TIME: sum(wait <= SLO_SECONDS for wait in waits) / max(len(waits), 1) * 100,
        "AlreadyExists": history.already_exists,
    }


def handed_over(history: History) -> dict[str, float]:
    """Return how websites went from shard to shard."""
    moving = sum(number for (_, _, what, _), number in history.requests.items() if what in APIS)
    values = {
        FOREIGN: len(history.foreign),
        "after SIGTERM": history.late,
        "moved": history.moved,
        PER_MOVE: moving / max(history.moved, 1),
        f"{UNOWNED}, s": sum(gap.seconds for gap in history.unowned),
    }
    for what, gaps in ((UNOWNED, history.unowned), (APART, history.apart)):
        lost = [gap.seconds for gap in gaps if gap.by_loss]
        for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("longest", 1.0)):
            values[f"{what} {name}, s"] = quantile(lost, share)
        drained = [gap.seconds for gap in gaps if not gap.by_loss]
        values[f"{what} in drains p99, s"] = quantile(drained, 0.99)
    return values


def quantile(values: Iterable[float], share: float) -> float:
    """Return the smallest value that is at least as large as this share of all; 0 of none."""
    ordered = sorted(values)
    return ordered[max(ceil(share * len(ordered)) - 1, 0)] if ordered else 0.0


def in_histogram(buckets: Mapping[float, int], share: float) -> float:
    """Return a quantile of a cumulative histogram, in its bucket as Prometheus guesses it."""
    ordered = [(0.0, 0), *sorted(buckets.items())]
    rank = share * ordered[-1][1]
    for (below, before), (bound, count) in pairwise(ordered):
        if count > before and count >= rank:
            guess = below + (bound - below) * (rank - before) / (count - before)
            return min(guess, ordered[-2][0])  # the last bucket has no end
    return 0.0
