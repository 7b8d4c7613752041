"""Facts about `sharder.cli.words`: the command line takes the words that kubectl takes."""

import pytest

from sharder.cli.words import (
    Target,
    matches,
    named_by,
    resource_named,
    targets_of,
)
from sharder.core.api.meta import Resource
from sharder.core.api.since import short
from sharder.core.errors import ConfigError
from sharder.core.names import GroupResource

DEPLOYMENTS = Resource(
    id=GroupResource("apps", "deployments"),
    version="v1",
    kind="Deployment",
    namespaced=True,
    singular="deployment",
    short_names=("deploy",),
)
SECRETS = Resource(
    id=GroupResource("", "secrets"),
    version="v1",
    kind="Secret",
    namespaced=True,
    singular="secret",
)
OTHER_SECRETS = Resource(
    id=GroupResource("example.com", "secrets"),
    version="v2",
    kind="Secret",
    namespaced=True,
    singular="secret",
)


@pytest.mark.parametrize(
    "word",
    [
        *("deployments", "deployment", "deploy", "Deployment", "DEPLOY"),
        *("deployments.apps", "deploy.apps", "Deployment.apps", "deployments.v1.apps"),
    ],
)
def test_plural_singular_short_name_and_kind_name_a_resource(word: str) -> None:
    assert matches(DEPLOYMENTS, word)


@pytest.mark.parametrize("word", ["", "deploys", "deployments.batch", "deployments.v2.apps", "."])
def test_other_words_do_not_name_it(word: str) -> None:
    assert not matches(DEPLOYMENTS, word)


def test_a_word_for_two_resources_is_ambiguous_without_its_group() -> None:
    both = (DEPLOYMENTS, SECRETS, OTHER_SECRETS)

    assert resource_named("secret.example.com", both) == OTHER_SECRETS
    assert resource_named("pods", both) is None
    with pytest.raises(ConfigError, match=r"use one of secrets, secrets\.example\.com$"):
        resource_named("secret", both)


@pytest.mark.parametrize(
    ("words", "namespace", "targets"),
    [
        (["secrets", "a"], None, [("secrets", "a")]),
        (["secrets", "a", "b"], "n", [("secrets", "n/a"), ("secrets", "n/b")]),
        (["secrets", "n/a", "m/b"], None, [("secrets", "n/a"), ("secrets", "m/b")]),
        (["secrets", "n/a"], "n", [("secrets", "n/a")]),
        (["secret/a"], "n", [("secret", "n/a")]),
        (["secret/a", "cm/b"], "n", [("secret", "n/a"), ("cm", "n/b")]),
        (["secret/n/a"], None, [("secret", "n/a")]),
    ],
)
def test_objects_are_named_as_for_kubectl(
    words: list[str], namespace: str | None, targets: list[tuple[str, str]]
) -> None:
    assert targets_of(words, namespace) == [Target(*target) for target in targets]


@pytest.mark.parametrize(
    ("words", "namespace", "message"),
    [
        (["secrets"], "n", "secrets is not an object"),
        (["secret/"], "n", "secret/ is not an object"),
        (["secret/a", "b"], "n", "secret/a b is not an object"),
        (["secrets", ""], "n", "is not an object"),
        (["secrets", "m/a"], "n", "m/a is not in the namespace n of --namespace"),
    ],
)
def test_other_words_name_no_object(words: list[str], namespace: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        targets_of(words, namespace)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("/Secret/demo/x", "secret demo/x"),
        ("apps/Deployment/demo/web", "deployment.apps demo/web"),
        ("/Namespace//demo", "namespace demo"),
    ],
)
def test_an_object_is_shown_in_words_that_commands_take(key: str, words: str) -> None:
    resource, name = named_by(key).split()

    assert named_by(key) == words
    assert targets_of([resource, name], None) == [Target(resource, name)]
    assert matches(DEPLOYMENTS, resource) == ("Deployment" in key)
    assert matches(SECRETS, resource) == ("Secret" in key)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((-3, "0s"), (0.9, "0s"), (59, "59s"), (60, "1m"), (125, "2m5s"), (3600, "1h")),
        *((3605, "1h"), (3700, "1h1m"), (90_000, "1d1h"), (864_000, "10d")),
    ],
)
def test_an_age_has_two_units_as_in_kubectl(seconds: float, text: str) -> None:
    assert short(seconds) == text
