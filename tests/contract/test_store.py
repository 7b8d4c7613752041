"""The in-memory stores keep the contract of stores."""

import pytest

from sharder.core.api.meta import Resource
from sharder.core.errors import Expired
from sharder.sdk.testing import watching
from tests.support.fakes import FakeObjects, fake_leases
from tests.support.store_contract import CONFIG_MAPS, StoreContract, World, told


class TestFakeStore(StoreContract):
    @pytest.fixture
    def world(self) -> World:
        maps = Resource(id=CONFIG_MAPS, version="v1", kind="ConfigMap", namespaced=True)
        return World(namespace="ns", leases=fake_leases().selecting, objects=FakeObjects(maps))


async def test_a_version_from_before_the_history_has_expired() -> None:
    leases = fake_leases()
    version = (await leases.list()).resource_version
    await leases.create("ns", {"metadata": {"name": "a"}})
    leases.compact()

    with pytest.raises(Expired):
        await told(leases, version, 1)


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", True),
        ("a", True),
        ("!a", False),
        ("b", False),
        ("!b", True),
        ("a=1", True),
        ("a == 1", True),
        ("a=2", False),
        ("a!=2", True),
        ("b!=2", True),
        ("a in (1, 2),!b", True),
        ("a in (2)", False),
        ("a notin (1,2)", False),
        ("b notin (1)", True),
        ("a=1,b", False),
        ("x.y/z=", True),
    ],
)
def test_selectors_mean_what_they_mean_to_the_server(selector: str, selected: bool) -> None:
    assert watching.selector(selector)({"a": "1", "x.y/z": ""}) is selected
