"""Facts about the demo: what can be asked for, what is looked for, and what is counted."""

import pytest
import yaml

from hack.demo import strategy_of
from hack.playground import MANIFESTS
from sharder.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "problem"), [("bogus", "unknown strategy bogus"), ("Custom", "needs a function")]
)
def test_the_demo_refuses_what_it_cannot_show(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        strategy_of(text)


def test_the_viewer_of_a_kept_demo_can_write_nothing() -> None:
    manifests = list(yaml.safe_load_all((MANIFESTS / "viewer.yaml").read_text()))
    bound = {
        each["roleRef"]["name"]
        for each in manifests
        if each["kind"] == "ClusterRoleBinding"
        and "viewer" in {subject["name"] for subject in each["subjects"]}
    }

    roles = [m for m in manifests if m["kind"] == "ClusterRole" and m["metadata"]["name"] in bound]
    verbs = {verb for role in roles for rule in role["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}
