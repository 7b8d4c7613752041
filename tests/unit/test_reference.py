"""docs/reference.md has every field of the ControllerRing as the CRD has it."""

import pytest
import yaml

from hack.reference.ring import CRD, DOCUMENT, document
from sharder.core.api.meta import Json
from tests.support.documents import code, tables


def crd(**spec: Json) -> str:
    """Return a CRD with these fields under `spec`, and a status without any."""
    properties: Json = {
        "spec": {"type": "object", "properties": spec},
        "status": {"type": "object"},
    }
    version: Json = {
        "name": "v1",
        "schema": {"openAPIV3Schema": {"properties": properties}},
        "additionalPrinterColumns": [{"name": "Age", "jsonPath": ".metadata.creationTimestamp"}],
    }
    names: Json = {"plural": "shapes", "shortNames": ["shape"]}
    return yaml.safe_dump(
        {"spec": {"group": "g", "names": names, "versions": [version]}}, sort_keys=False
    )


def rows(**spec: Json) -> list[list[str]]:
    """Return the cells of the fields under `spec`."""
    return tables(document(crd(**spec)))[0]


def test_the_reference_is_what_the_crd_says_today() -> None:
    assert DOCUMENT.read_text() == document(CRD.read_text())


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "date-time"}, "date-time"),
        ({"type": "string", "enum": ["A", "B"]}, "`A`, `B`"),
        ({"type": "string", "minLength": 1}, "string, not empty"),
        ({"type": "string", "minLength": 1, "maxLength": 9}, "string, 1 to 9 characters"),
        ({"type": "string", "pattern": "^a|b$"}, r"string, matches `^a\|b$`"),
        ({"type": "integer", "minimum": 0}, "integer, 0 or more"),
        ({"type": "integer", "minimum": 1, "maximum": 9}, "integer, 1 to 9"),
        ({"type": "array", "items": {"type": "string"}}, "list of strings"),
        (
            {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 3},
            "list of strings (at most 9 characters), at most 3 of them",
        ),
        (
            {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "list of strings, each once",
        ),
        (
            {
                "type": "array",
                "items": {"type": "object"},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["group", "name"],
            },
            "list of objects, each once by `group` and `name`",
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "map of strings by name"),
    ],
)
def test_a_type_is_reported_with_its_limits(schema: Json, said: str) -> None:
    assert rows(size=schema)[0][1] == said


@pytest.mark.parametrize(
    ("default", "said"), [(0, "`0`"), (False, "`false`"), ("", '`""`'), (["a"], '`["a"]`')]
)
def test_a_default_that_is_empty_is_one(default: Json, said: str) -> None:
    assert rows(size={"type": "string", "default": default})[0][2] == said


def test_fields_that_several_have_are_reported_once() -> None:
    colour: Json = {"type": "object", "properties": {"red": {"type": "integer"}}}

    text = document(crd(border=colour, fill=colour))

    assert [line for line in text.splitlines() if line.startswith("### ")] == ["### spec.border"]
    assert [row[-1] for row in tables(text)[0]] == ["[Its fields](#specborder)."] * 2


def test_what_is_refused_stands_beside_the_field_or_before_the_fields() -> None:
    rules: Json = [{"rule": "self > 1", "message": "write more"}]
    inside: Json = {"type": "object", "properties": {"red": {"type": "integer"}}}
    assert isinstance(inside, dict)

    text = document(
        crd(
            size={"type": "integer", "x-kubernetes-validations": rules},
            fill={**inside, "x-kubernetes-validations": rules},
        )
    )

    assert "Refused with: write more." in tables(text)[0][0][-1]
    assert "\n- write more\n" in text.partition("### spec.fill")[2]


def test_the_columns_that_kubectl_shows_are_reported_with_their_fields() -> None:
    columns = tables(document(crd()).partition("## Conditions")[0])[-1]

    assert [code(cell) for cell in columns[0]] == [["AGE"], ["metadata.creationTimestamp"], []]


def test_a_second_version_needs_a_reference_of_its_own() -> None:
    one = yaml.safe_load(crd())
    one["spec"]["versions"] *= 2

    with pytest.raises(ValueError, match="too many"):
        document(yaml.safe_dump(one))
