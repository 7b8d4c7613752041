"""The panels of the dashboard, with their queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sharder.metrics.registry import PREFIX as OURS

RING: Final = '{controllerring=~"$ring"}'
Query: TypeAlias = tuple[str, str]
"""A PromQL expression, and Grafana's format of the legend of its series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel of the dashboard."""

    title: str
    about: str
    queries: Sequence[Query]
    unit: str = "short"
    kind: str = "timeseries"
    stacked: bool = False
    thresholds: Sequence[tuple[str, float | None]] = ()
    """Colours, each with its lowest value; the first colour has None, for no lowest value."""


def _by_resource(name: str, aggregate: str = "sum") -> str:
    return f"{aggregate} by (controllerring, resource) ({OURS}{name}{RING})"


def _rate(name: str) -> str:
    return f"sum by (controllerring) (rate({OURS}{name}{RING}[$__rate_interval]))"


def _quantile(quantile: float, name: str, by: str = "", selector: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    rates = f"rate({OURS}{name}_bucket{selector}[$__rate_interval])"
    return f"histogram_quantile({quantile}, sum by ({labels}) ({rates}))"


def _of_process(name: str) -> str:
    """Restrict an expression to sharders, because other processes have the same metric."""
    return f"{name} and on (job, instance) {OURS}build_info"


GOOD_ABOVE_0: Final = (("red", None), ("green", 1))
BAD_ABOVE_0: Final = (("green", None), ("red", 1))

OVERVIEW: Final = (
    Panel(
        title="Rings that are not Ready",
        about="The message of the condition Ready says why.",
        kind="stat",
        thresholds=BAD_ABOVE_0,
        queries=[
            (
                f"count(max by (controllerring) ({OURS}controllerring_condition"
                '{condition="Ready",status!="True"}) == 1) or vector(0)',
                "",
            )
        ],
    ),
    Panel(
        title="Leaders",
        about="One replica leads. Without a leader nothing moves.",
        kind="stat",
        thresholds=GOOD_ABOVE_0,
        queries=[(f"sum({OURS}leader)", "")],
    ),
    Panel(
        title="Replicas",
        about="Replicas of the sharder that are scraped.",
        kind="stat",
        thresholds=GOOD_ABOVE_0,
        queries=[(f"count({OURS}build_info)", "")],
    ),
    Panel(
        title="Unassigned objects",
        about="Objects without an owner label.",
        kind="stat",
        thresholds=BAD_ABOVE_0,
        queries=[(f"sum({OURS}unassigned_objects{RING}) or vector(0)", "")],
    ),
    Panel(
        title="Overdue drains",
        about="Drains open for longer than drainTimeout.",
        kind="stat",
        thresholds=BAD_ABOVE_0,
        queries=[(f"sum({OURS}overdue_drains{RING}) or vector(0)", "")],
    ),
    Panel(
        title="Certificates expire in",
        about="The serving certificate and its CA.",
        kind="stat",
        unit="s",
        thresholds=(("red", None), ("green", 7 * 86400)),
        queries=[
            (
                f"min by (certificate) ({OURS}certificate_expiry_timestamp_seconds) - time()",
                "{{certificate}}",
            )
        ],
    ),
)
RINGS: Final = (
    Panel(
        title="Objects of each shard",
        about="Main objects, draining ones included.",
        stacked=True,
        queries=[
            (
                f"max by (controllerring, shard) ({OURS}shard_objects{RING})",
                "{{controllerring}} {{shard}}",
            )
        ],
    ),
    Panel(
        title="Shards",
        about="Available shards, and all with a valid Lease.",
        queries=[
            (
                f"max by (controllerring) ({OURS}controllerring_status_available_shards{RING})",
                "{{controllerring}} available",
            ),
            (
                f"max by (controllerring) ({OURS}controllerring_status_shards{RING})",
                "{{controllerring}} all",
            ),
        ],
    ),
    Panel(
        title="Use of declared capacity",
        about="Objects of a shard over its capacity; absent without one.",
        unit="percentunit",
        queries=[
            (
                f"max by (controllerring, shard) ({OURS}shard_objects{RING}) "
                f"/ max by (controllerring, shard) ({OURS}shard_capacity{RING})",
                "{{controllerring}} {{shard}}",
            )
        ],
    ),
)
MOVEMENT: Final = (
    Panel(
        title="Assignments and movements",
        about="By the webhook on admission, and by the leader afterwards.",
        unit="ops",
        queries=[
            (_rate("assignments_total"), "{{controllerring}} by the webhook"),
            (_rate("movements_total"), "{{controllerring}} by the leader"),
            (_rate("object_failures_total"), "{{controllerring}} failed writes"),
        ],
    ),
    Panel(
        title="Unassigned and draining objects",
        about="Objects that wait for an owner, or for their shard to release them.",
        queries=[
            (_by_resource("unassigned_objects"), "{{controllerring}} {{resource}} unassigned"),
            (_by_resource("draining_objects"), "{{controllerring}} {{resource}} draining"),
            (_by_resource("overdue_drains"), "{{controllerring}} {{resource}} overdue"),
        ],
    ),
    Panel(
        title="Age of the oldest",
        about="Since the present leader first saw it.",
        unit="s",
        queries=[
            (
                _by_resource("unassigned_oldest_seconds", "max"),
                "{{controllerring}} {{resource}} unassigned",
            ),
            (
                _by_resource("draining_oldest_seconds", "max"),
                "{{controllerring}} {{resource}} draining",
            ),
        ],
    ),
    Panel(
        title="Drains",
        about="Requested, deferred by a limit of spec.movement, and for the balance.",
        unit="ops",
        queries=[
            (_rate("drains_total"), "{{controllerring}} requested"),
            (_rate("drains_withheld_total"), "{{controllerring}} deferred"),
            (_rate("rebalance_moves_total"), "{{controllerring}} rebalanced"),
        ],
    ),
    Panel(
        title="Time without a live owner (p99)",
        about="At each handover: after an acknowledged drain, and after the loss of a shard.",
        unit="s",
        queries=[
            (
                _quantile(0.99, "handover_seconds", "controllerring, reason", RING),
                "{{controllerring}} {{reason}}",
            )
        ],
    ),
)
ADMISSION: Final = (
    Panel(
        title="Admission requests by outcome",
        about="docs/metrics.md explains the outcomes.",
        unit="reqps",
        stacked=True,
        queries=[
            (
                f"sum by (outcome) (rate({OURS}admission_answers_total[$__rate_interval]))",
                "{{outcome}}",
            )
        ],
    ),
    Panel(
        title="Admission latency",
        about="In the sharder; every create of an object of a ring waits for it.",
        unit="s",
        queries=[
            (_quantile(0.5, "admission_duration_seconds"), "p50"),
            (_quantile(0.99, "admission_duration_seconds"), "p99"),
        ],
    ),
)
REPLICAS: Final = (
    Panel(
        title="Leader",
        about="1 for the replica that leads.",
        queries=[(f"{OURS}leader", "{{instance}}")],
    ),
    Panel(
        title="Event loop lag (p99)",
        about="Admission waits for this time in addition to its own.",
        unit="s",
        queries=[(_quantile(0.99, "event_loop_lag_seconds", "instance"), "{{instance}}")],
    ),
    Panel(
        title="Watches that fail",
        about="Such a replica decides by what it saw last.",
        queries=[(f"{OURS}watch_healthy == 0", "{{instance}} {{watch}}")],
    ),
    Panel(
        title="CPU",
        about="Cores.",
        queries=[
            (_of_process("rate(process_cpu_seconds_total[$__rate_interval])"), "{{instance}}")
        ],
    ),
    Panel(
        title="Memory",
        about="Resident.",
        unit="bytes",
        queries=[(_of_process("process_resident_memory_bytes"), "{{instance}}")],
    ),
    Panel(
        title="Requests to the API server",
        about="By HTTP status: 429 is throttling, <error> no answer. Watches count too.",
        unit="reqps",
        queries=[
            (
                "sum by (code) ("
                + _of_process("rate(rest_client_requests_total[$__rate_interval])")
                + ")",
                "{{code}}",
            )
        ],
    ),
    Panel(
        title="Queues of the leader",
        about="Keys that are due and wait for a worker.",
        queries=[(f"sum by (name) ({_of_process('workqueue_depth')})", "{{name}}")],
    ),
    Panel(
        title="Crashes of tasks",
        about="Each was restarted; the log has the error.",
        queries=[
            (f"increase({OURS}task_crashes_total[$__rate_interval])", "{{instance}} {{task}}")
        ],
    ),
)
ROWS: Final = {
    "": (OVERVIEW, 4),
    "Rings": (RINGS, 8),
    "Movement": (MOVEMENT, 8),
    "Admission": (ADMISSION, 8),
    "Replicas": (REPLICAS, 8),
}
"""The rows by title, each with its panels and their height in lines of Grafana's grid."""
PER_LINE: Final = 3
"""The maximum number of panels side by side; all panels of OVERVIEW stand side by side."""
