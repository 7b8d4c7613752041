"""Facts about docs/console.md: its tables are the interface."""

from pathlib import Path

from sharder.console.models import Health, Model, Ring, RingDetail, Severity
from sharder.core.leases.state import ShardState
from sharder.core.status.phases import ShardPhase
from tests.support.documents import code, section, tables

DOCUMENT = Path("docs/console.md")
WORDS: set[str] = {word.value for words in (Health, Severity, ShardPhase) for word in words}


def fields(model: type[Model]) -> set[str]:
    """Return the names of a model's fields in JSON; those of its base have their own row."""
    names = {str(field.alias) for field in model.model_fields.values()}
    return names - fields(Ring) if model is RingDetail else names


def test_each_object_is_documented_with_all_its_fields() -> None:
    _, documented = tables(section(DOCUMENT, "JSON"))
    named = {code(name)[0]: set(code(what)) for name, what in documented}
    of_models = {each.__name__: each for each in Model.__subclasses__()} | {
        "RingDetail": RingDetail
    }

    assert named.keys() == of_models.keys()
    for name, model in of_models.items():
        others = named[name] - fields(model) - of_models.keys()
        assert named[name] >= fields(model)
        assert others <= WORDS, (name, others)


def test_each_word_is_documented() -> None:
    _, documented = tables(section(DOCUMENT, "JSON"))

    assert {word for _, what in documented for word in code(what)} >= WORDS


def test_the_states_of_a_shard_are_documented_with_the_labels_of_their_leases() -> None:
    (documented,) = tables(section(Path("docs/concepts.md"), "The states of a shard"))
    labels = {code(row[0])[0]: set(code(row[3])) for row in documented}

    assert list(labels) == list(ShardPhase)
    assert set.union(*labels.values()) == set(ShardState)
    assert all((ShardState.DEAD in labels[phase]) is phase.is_gone for phase in ShardPhase)
