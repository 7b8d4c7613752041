"""Names that YAML takes for a number or a boolean stay names."""

import pytest
import yaml

from tests.chart.rendering import Helm

RINGS = [{"name": "web", "resources": [{"group": "apps", "resource": "deployments"}]}]


def values(name: str) -> dict[str, object]:
    """Return values in which everything that may begin with a digit has this name."""
    return {
        "rings": RINGS,
        "networkPolicy": {"enabled": True},
        "image": {"repository": name, "tag": name},
        "imagePullSecrets": [{"name": name}],
        "serviceAccount": {"name": name, "annotations": {"a": name}},
        "podAnnotations": {"a": name},
        "podLabels": {"a": name},
        "nodeSelector": {"a": name},
        "priorityClassName": name,
        "config": {
            "certificates": {"secretName": name},
            "leaderElection": {"resourceNamespace": name},
        },
    }


def shape(tree: object) -> object:
    """Return a tree with the type of each leaf in its place."""
    match tree:
        case dict():
            return {key: shape(value) for key, value in tree.items()}
        case list():
            return [shape(each) for each in tree]
        case _:
            return type(tree)


def shapes(helm: Helm, name: str, more: dict[str, object]) -> list[object]:
    given = {**values(name), **more}
    rendered = helm.template(given, release=name, namespace=name)
    return [shape(each) for each in yaml.load_all(rendered, Loader=yaml.CSafeLoader) if each]


@pytest.mark.parametrize("cert_manager", [False, True])
@pytest.mark.parametrize("name", ["1234", "yes"])
def test_a_name_is_text_whatever_it_looks_like(helm: Helm, name: str, cert_manager: bool) -> None:
    more: dict[str, object] = {"certManager": {"enabled": cert_manager}}

    assert shapes(helm, name, more) == shapes(helm, "plain", more)


def test_a_name_of_letters_may_be_that_of_the_whole_chart(helm: Helm) -> None:
    odd = shapes(helm, "yes", {"nameOverride": "yes"})

    assert odd == shapes(helm, "plain", {"nameOverride": "plain"})
