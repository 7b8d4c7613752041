"""What a file of vectors of gear placement says."""

import msgspec


class Weights(msgspec.Struct, frozen=True):
    """The weighted choice among so many servers."""

    servers: int
    weight_skew: int
    weights_sum: int
    weight_by_index_most_to_least_consumed: tuple[int, ...]
    index_for_position: tuple[int, ...] | None = None


class Positions(msgspec.Struct, frozen=True):
    """Which positions are whose."""

    servers: int
    weights_sum: int
    positions: dict[str, tuple[int, ...]]


class Server(msgspec.Struct, frozen=True):
    """A node that was offered; null stands for none."""

    name: str
    consumed: float
    district: str | None = None
    district_available: int | None = None
    region: str | None = None
    zone: str | None = None


class BestFit(msgspec.Struct, frozen=True):
    """Who is left after trimming, the fullest first, and how likely each is."""

    candidates_most_to_least_consumed: tuple[str, ...]
    probability: dict[str, str]


class BestFitCase(msgspec.Struct, frozen=True):
    """Nodes to choose from, whatever the application."""

    name: str
    servers: tuple[Server, ...]
    district_max_capacity: int
    result: BestFit


class Place(msgspec.Struct, frozen=True):
    """Where the first gear of an application is."""

    region: str
    zone: str


class Application(msgspec.Struct, frozen=True):
    """Where an application has gears."""

    app_server: Place | None = None
    hosting: dict[str, int] = {}
    zone_of: dict[str, str] = {}
    restricted: tuple[str, ...] = ()
    min_zones: int = 1
    active_zones: tuple[str, ...] = ()
    """All of the region."""


class FilterCase(msgspec.Struct, frozen=True):
    """Nodes to choose from for an application, and who is left before trimming."""

    name: str
    servers: tuple[Server, ...]
    input: Application
    expect: tuple[str, ...]
    trace: tuple[tuple[str, tuple[str, ...]], ...]


class EvenStep(msgspec.Struct, frozen=True):
    """A gear more: active capacities, who has gears, and who is left."""

    offered: dict[str, float]
    hosting_before: dict[str, int]
    after_filters: tuple[str, ...]


class EvenZones(msgspec.Struct, frozen=True):
    """Gears of one application, one after the other."""

    steps: tuple[EvenStep, ...]
    final: dict[str, int]


class Fact(msgspec.Struct, frozen=True):
    """A fact in words."""

    name: str
    expect: str


class Record(msgspec.Struct, frozen=True):
    """What matters here of a district's record."""

    available_capacity: int | None = None


class District(msgspec.Struct, frozen=True):
    """What a district's record says after an operation; a text if that fails."""

    op: str
    expect: Record | str


class ActiveCapacity(msgspec.Struct, frozen=True):
    """How full a node is, by the states of its gears."""

    max_active_gears: int
    started: int
    stopped: int
    new_building_deploying: int
    unknown: int
    active_capacity: float


class GearFile(msgspec.Struct, frozen=True):
    """Vectors of gear placement."""

    best_fit_vectors: tuple[BestFitCase, ...]
    weighted_choice: tuple[Weights, ...] = ()
    code_comment_example: Positions | None = None
    filter_vectors: tuple[FilterCase, ...] = ()
    even_zone_scenario: EvenZones | None = None
    discovery_vectors: tuple[Fact, ...] = ()
    district_vectors: tuple[District, ...] = ()
    active_capacity_vectors: tuple[ActiveCapacity, ...] = ()
