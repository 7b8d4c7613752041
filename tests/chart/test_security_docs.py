"""The table of rights in docs/security.md is what the chart gives."""

from pathlib import Path

from tests.chart.rendering import Helm, decode_manifests
from tests.support.audit import Right
from tests.support.documents import code, section, tables

SECURITY = Path("docs/security.md")
VALUES = {"rings": [{"name": "web", "resources": [{"group": "apps", "resource": "deployments"}]}]}


def documented(who: str) -> list[tuple[str, set[Right]]]:
    """Return where the rights of `who` hold, and what they are, row by row."""
    rows = tables(section(SECURITY, "All rights"))[0]
    return [(row[4], _said(row)) for row in rows if row[0] == who]


def _said(row: list[str]) -> set[Right]:
    _, verbs, group, resource, where, _ = row
    scope, _, only = where.partition(", only ")
    place = ("".join(code(cell)) for cell in (group, resource, scope, only))
    return {Right(verb, *where) for where in [tuple(place)] for verb in verbs.split(", ")}


def given(rendered: str, name: str) -> set[Right]:
    """Return what the Roles and ClusterRoles of this name allow."""
    return {
        Right(verb, group, resource, role.metadata.namespace, only)
        for role in decode_manifests(rendered)
        if role.metadata.name == name
        for rule in role.rules
        for verb in rule.verbs
        for group in rule.api_groups or ("",)
        for resource in rule.resources or rule.non_resource_urls
        for only in rule.resource_names or ("",)
    }


def test_the_sharder_has_the_rights_of_the_table_and_no_others(helm: Helm) -> None:
    rows = documented("sharder")

    rights = given(helm.template(VALUES), "sharder")

    assert rights == {right for _, row in rows for right in row if right.resource}


def test_on_the_objects_of_rings_the_sharder_has_the_rights_of_the_table(helm: Helm) -> None:
    (row,) = (row for _, row in documented("sharder") if not {*row}.pop().resource)

    rights = given(helm.template(VALUES), "sharder-sharded-resources")

    assert rights == {right._replace(group="apps", resource="deployments") for right in row}


def test_a_scraper_gets_the_right_of_the_table(helm: Helm) -> None:
    ((_, row),) = documented("scraper")

    assert given(helm.template(VALUES), "sharder-metrics-reader") == row
