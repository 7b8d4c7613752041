"""Facts about `sharder.cli.words`: the command line takes the words that kubectl takes."""

import pytest

from sharder.cli.words import matches
from sharder.core.api.meta import Resource
from sharder.core.names import GroupResource
from sharder.core.plan.observe import short

DEPLOYMENTS = Resource(
    id=GroupResource("apps", "deployments"),
    version="v1",
    kind="Deployment",
    namespaced=True,
    singular="deployment",
    short_names=("deploy",),
)


@pytest.mark.parametrize(
    ("words", "are_right"),
    [
        ("deployments deployment deploy Deployment DEPLOY", True),
        ("deployments.apps deploy.apps Deployment.apps deployments.v1.apps", True),
        (" deploys deployments.batch deployments.v2.apps .", False),
    ],
)
def test_plural_singular_short_name_and_kind_name_a_resource(words: str, are_right: bool) -> None:
    assert {matches(DEPLOYMENTS, word) for word in words.split(" ")} == {are_right}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((-3, "0s"), (0.9, "0s"), (59, "59s"), (60, "1m"), (125, "2m5s"), (3600, "1h")),
        *((3605, "1h"), (3700, "1h1m"), (90_000, "1d1h"), (864_000, "10d")),
    ],
)
def test_an_age_has_two_units_as_in_kubectl(seconds: float, text: str) -> None:
    assert short(seconds) == text
