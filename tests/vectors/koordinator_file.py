"""What a file of vectors of Koordinator's rescheduling says."""

from collections.abc import Mapping

import msgspec


class Rates(msgspec.Struct, frozen=True):
    """Rates of one node, and how far apart they are."""

    rates: tuple[float, ...]
    std: float


class Threshold(
    msgspec.Struct, frozen=True, rename={"by_number": "selected_by_upstream_fixed_0.15"}
):
    """Nodes of some fragmentation, and which of them give pods up."""

    name: str
    fragmentation: tuple[float, ...]
    mean: float
    sigma_population: float
    threshold: float
    selected_strictly_above: list[int]
    by_number: list[int]


class Pod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod; `koord_qos` and `kpri` are empty where it says nothing."""

    name: str
    req: Mapping[str, float] = {}
    kpri: str = ""
    priority: int = 0
    koord_qos: str = msgspec.field(default="", name="koordQoS")
    k8s_qos: str = msgspec.field(default="", name="k8sQoS")
    deletion_cost: int = 0
    eviction_cost: int = 0
    created_offset_s: int = msgspec.field(default=0, name="created_offset_s")


class Removal(msgspec.Struct, frozen=True):
    """What comes of a node without one of its pods."""

    pod: str
    after: float
    gain: float


class PluginResult(msgspec.Struct, frozen=True):
    """What the plugin that was built does in one run."""

    rates: tuple[float, ...]
    before: float
    removals: tuple[Removal, ...]
    evicted: list[str]


class PluginCase(msgspec.Struct, frozen=True):
    """A node of the plugin's tests; `evictable` None: all of its pods."""

    name: str
    allocatable: Mapping[str, float]
    pods: tuple[Pod, ...]
    threshold: float = msgspec.field(name="imbalanceThreshold")
    min_gain: float = msgspec.field(name="minImprovementThreshold")
    evictable: tuple[str, ...] | None
    expect: PluginResult


class Scoring(msgspec.Struct, frozen=True):
    """A node and its number, or that before and after a pod has left."""

    name: str
    allocatable: Mapping[str, float]
    pods: tuple[Pod, ...]
    rates: tuple[float, ...] | None = None
    std: float | None = None
    remove: str = ""
    before: float | None = None
    after: float | None = None
    gain: float | None = None


class Step(msgspec.Struct, frozen=True):
    """A pod that leaves."""

    pod: str
    before: float = msgspec.field(name="from")
    after: float = msgspec.field(name="to")


class Steps(msgspec.Struct, frozen=True):
    """Which pods might leave, in order, and which do."""

    before: float
    candidates_in_order: list[str]
    steps: tuple[Step, ...]
    after: float


class Proposal(msgspec.Struct, frozen=True):
    """A node of the proposal; `removable` None: all of its pods."""

    name: str
    allocatable: Mapping[str, float]
    pods: tuple[Pod, ...]
    threshold: float
    removable: tuple[str, ...] | None
    expect_seed_rule: Steps
    expect_with_recheck_before_each_eviction: Steps


class Story(msgspec.Struct, frozen=True):
    """The first story of the proposal."""

    nodes: Mapping[str, Mapping[str, float]]
    pod: Mapping[str, float]
    fits: Mapping[str, bool]
    fragmentation: Mapping[str, float]
    threshold_mu_sigma: float
    nodes_selected_by_proposal: list[str]
    by_number: list[str] = msgspec.field(name="nodes_selected_by_upstream_0.15")


class Ranks(msgspec.Struct, frozen=True):
    """Numbers of classes, the lower evicted first."""

    priority_classes: Mapping[str, int] = msgspec.field(name="koordPriorityClass")
    koord_qos: Mapping[str, int] = msgspec.field(name="koordQoS")
    k8s_qos: Mapping[str, int] = msgspec.field(name="k8sQoS")


class Sorter(msgspec.Struct, frozen=True):
    """Pods, and the order in which they are evicted."""

    ranks: Ranks = msgspec.field(name="class_ranks_low_evicted_first")
    bands: Mapping[str, tuple[int, int]] = msgspec.field(name="priority_bands")
    pods: tuple[Pod, ...]
    expect_order: list[str]


class Defaults(msgspec.Struct, frozen=True, rename="camel"):
    """Arguments of the plugin that are not set."""

    paused: bool
    dry_run: bool
    resources: list[str]
    min_improvement_threshold: float


class Mistake(msgspec.Struct, frozen=True):
    """Arguments that the plugin refuses."""

    args: str
    error: str
