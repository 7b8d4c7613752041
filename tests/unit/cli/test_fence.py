"""Facts about `sharder fence`."""

import pytest
import yaml

from sharder.cli import fence
from sharder.cli.words import account_in
from sharder.core.errors import ConfigError
from sharder.core.fence.policy import fence_of
from sharder.core.names import ObjectRef
from tests.support.read_cluster import ReadCluster
from tests.support.values import DEMO, ring

ACCOUNT = ObjectRef("my-controller", "my-controller")


async def test_it_prints_the_policy_of_the_ring_and_its_binding(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = await ReadCluster().filled()

    fence.show(await fence.manifests(fake.cluster, ring=DEMO, accounts=[ACCOUNT]))

    printed = tuple(yaml.safe_load_all(capsys.readouterr().out))
    assert printed == fence_of(ring(), [ACCOUNT])


async def test_a_ring_that_does_not_exist_is_an_error() -> None:
    fake = await ReadCluster().filled()

    with pytest.raises(ConfigError, match="ControllerRing web not found; existing rings: demo"):
        await fence.manifests(fake.cluster, ring="web", accounts=[ACCOUNT])


def test_accounts_have_a_namespace() -> None:
    assert account_in("a/b") == ObjectRef("a", "b")


@pytest.mark.parametrize("word", ["a", "a/", "/b", "a/b/c", ""])
def test_another_form_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="is not a ServiceAccount; use NAMESPACE/NAME"):
        account_in(word)
