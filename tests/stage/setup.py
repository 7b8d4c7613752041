"""What is played: a function of the seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from sharder.core.api.meta import Json
from tests.stage.faults import SHARDERS, SHARDS
from tests.stage.story import LEADING, MAIN
from tests.stage.users import UNUSUAL

STRATEGIES: Final = ("ConsistentHash", "Rendezvous", "BoundedLoad", "Spread", "LeastLoaded")
CEILING, BUDGET, REBALANCE, RESTORE = "ceiling", "budget", "rebalance", "restore"
CHILDLESS, STUBBORN, LOCKED = "childless", "stubborn", "locked"
"""The ring has no controlled resources; some children, or all main objects, fail for a while."""
EXTRAS: Final = (*UNUSUAL, CEILING, BUDGET, REBALANCE, RESTORE, CHILDLESS, STUBBORN, LOCKED)
"""What users do at times, and what the ring or the cluster has at times."""
EXTRA_SHARE: Final = 0.2
UNRESTORED: Final = frozenset({"widen", "pause", "invalid"})
"""What a restored etcd would have for ever, as it is undone only once."""
SKEWS: Final = (0, 0, 40, -40, -3600)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is played; all of it follows from the seed unless it is given."""

    seed: int
    strategy: str
    objects: int
    rate: float
    """Requests of users per second."""
    fence: bool
    lag: float
    """How long the watch caches can be behind, in seconds."""
    errors: float
    """How many requests of the product fail per second, somewhere."""
    foreign: bool
    """Whether one shard is written from the protocol alone."""
    servers: int
    proxied: bool
    """Whether one shard is a controller that nobody changed, behind a proxy."""
    admission_seconds: float
    """The longest time that its creates wait for other webhooks."""
    skews: Mapping[str, int]
    """By how many seconds the clock of each process is off."""
    spaces: int
    """In how many namespaces users create objects."""
    extras: frozenset[str]
    """Which of `EXTRAS` there are."""

    @classmethod
    def of(cls, seed: int) -> "Setup":
        """Return the setup of a seed."""
        rng = Random(f"setup {seed}")
        return cls(
            seed=seed,
            strategy=rng.choice(STRATEGIES),
            objects=rng.randint(3, 8),
            rate=rng.choice([0.5, 1.0, 2.0]),
            fence=rng.random() < 0.5,
            lag=rng.choice([0.0, 0.0, 0.05, 0.5]),
            errors=rng.choice([0.0, 0.0, 0.2, 1.0]),
            foreign=rng.random() < 0.3,
            servers=rng.choice([1, 1, 2]),
            skews={name: rng.choice(SKEWS) for name in (*SHARDS, *SHARDERS)},
            proxied=rng.random() < 0.3,
            admission_seconds=rng.choice([0.0, 3.0]),
            spaces=rng.choice([1, 1, 2]),
            extras=frozenset(each for each in EXTRAS if rng.random() < EXTRA_SHARE),
        )

    @property
    def is_foreign(self) -> bool:
        """Whether one shard is written from the protocol, which knows no restored etcd."""
        return self.foreign and RESTORE not in self.extras

    @property
    def unusual(self) -> frozenset[str]:
        """What users do beside the usual."""
        never = UNRESTORED if RESTORE in self.extras else frozenset[str]()
        never |= {"widen"} if {CHILDLESS, LOCKED} & self.extras else frozenset()
        return self.extras - never

    @property
    def resources(self) -> Json:
        """The resources of the ring."""
        return [MAIN if CHILDLESS in self.extras else LEADING]

    @property
    def spec(self) -> Json:
        """The ring."""
        has = self.extras.__contains__
        return {
            "resources": self.resources,
            "shardNamespaces": ["default"] if self.fence else [],
            "placement": {
                "strategy": self.strategy,
                "perShardCapacity": self.objects // 2 + 1 if has(CEILING) else None,
            },
            "movement": {"maxMovesPerMinute": 2 * has(BUDGET)},
            "rebalance": {"strategy": "EvenLoad", "interval": "10s"} if has(REBALANCE) else {},
        }
