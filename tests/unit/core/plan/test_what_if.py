"""Facts about `sharder.core.plan.what_if`: shards that are not there, or no more."""

import msgspec
import pytest

from sharder.core.api.lease import Lease
from sharder.core.api.ring import ControllerRing
from sharder.core.errors import ConfigError
from sharder.core.leases.shard import Shard, shard_of
from sharder.core.names import REGION_LABEL, ZONE_LABEL
from sharder.core.plan.observe import members_of, states_of
from sharder.core.plan.what_if import WhatIf, strategy_named, what_if_of
from sharder.core.status.phases import ShardPhase
from tests.support.values import NOW, A, B, lease, ring


def placed(name: str, zone: str, region: str = "r", **annotations: str) -> Lease:
    found = lease(name, labels={ZONE_LABEL: zone, REGION_LABEL: region})
    metadata = msgspec.structs.replace(found.metadata, annotations=annotations)
    return msgspec.structs.replace(found, metadata=metadata)


def new_shards(many: int, *present: Lease, of: ControllerRing | None = None) -> list[Shard]:
    leases = WhatIf(add=many).leases(of or ring(), present, NOW)
    return [shard_of(it) for it in leases[len(present) :]]


@pytest.mark.parametrize(("present", "there"), [([A, B], "shard-a, shard-b"), ([], "none")])
def test_a_shard_that_is_not_there_cannot_be_removed(present: list[str], there: str) -> None:
    leases = [lease(name) for name in present] + [lease("x", of="other")]

    with pytest.raises(ConfigError, match=f"demo has no shard x; its shards: {there}$"):
        WhatIf(remove=("x",)).leases(ring(), leases, NOW)


def test_a_name_of_a_shard_that_is_there_cannot_be_added() -> None:
    with pytest.raises(ConfigError, match="ring demo already has the shard shard-a"):
        WhatIf(named=(A,)).leases(ring(), [lease(A)], NOW)


def test_new_shards_are_like_the_present_ones_in_turn() -> None:
    assert [shard.zone for shard in new_shards(3, lease(A), placed("x", "one"))] == ["", "one", ""]


def test_an_unknown_strategy_is_reported_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="unknown strategy bogus; use one of ConsistentHash,"):
        strategy_named("bogus")


def test_new_shards_can_have_their_names() -> None:
    supposed = what_if_of(strategy=None, add=["demo-x", "1"], remove=[], resume=False)

    found = members_of(ring(), supposed.leases(ring(), [lease(A)], NOW))

    assert found.available == {A, "demo-x", "demo-new-1"}
    assert not supposed.is_exact
    assert WhatIf(named=("demo-x",)).is_exact


def test_of_two_shards_of_one_name_nothing_is_certain() -> None:
    present = [lease(A), lease(A, namespace="other")]

    assert states_of(members_of(ring(), present), present, NOW) == {A: ShardPhase.MISSING}
