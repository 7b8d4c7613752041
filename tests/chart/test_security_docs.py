"""The table of rights in docs/security.md is what the chart gives."""

from pathlib import Path

from sharder.core.names import METRICS_PATH
from tests.chart.rendering import Helm, decode_manifests
from tests.support.audit import Right, rights_of
from tests.support.documents import code, section, tables

SECURITY = Path("docs/security.md")
VALUES = {"rings": [{"name": "web", "resources": [{"group": "apps", "resource": "deployments"}]}]}


def documented() -> list[set[Right]]:
    """Return the rights of the sharder, row by row."""
    return [_said(row) for row in tables(section(SECURITY, "All rights"))[0]]


def _said(row: list[str]) -> set[Right]:
    verbs, group, resource, where = row
    scope, _, only = where.partition(", only ")
    place = ("".join(code(cell)) for cell in (group, resource, scope, only))
    return {Right(verb, *where) for where in [tuple(place)] for verb in verbs.split(", ")}


def given(rendered: str, name: str) -> set[Right]:
    """Return what the Roles and ClusterRoles of this name allow."""
    roles = [each for each in decode_manifests(rendered) if each.metadata.name == name]
    return {right for each in roles for right in rights_of(each.rules, each.metadata.namespace)}


def test_the_sharder_has_the_rights_of_the_table_and_no_others(helm: Helm) -> None:
    rights = given(helm.template(VALUES), "sharder")

    assert rights == {right for row in documented() for right in row if right.resource}


def test_on_the_objects_of_rings_the_sharder_has_the_rights_of_the_table(helm: Helm) -> None:
    (row,) = (row for row in documented() if not {*row}.pop().resource)

    rights = given(helm.template(VALUES), "sharder-sharded-resources")

    assert rights == {right._replace(group="apps", resource="deployments") for right in row}


def test_a_scraper_gets_the_right_to_read_the_metrics(helm: Helm) -> None:
    assert given(helm.template(VALUES), "sharder-metrics-reader") == {
        Right("get", "", METRICS_PATH)
    }
