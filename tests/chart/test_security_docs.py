"""The table of rights in docs/security.md is what the chart gives."""

from pathlib import Path
from typing import NamedTuple

import msgspec
import yaml

from tests.chart.rendering import Helm
from tests.support.documents import code, section, tables

SECURITY = Path("docs/security.md")
VALUES = {"rings": [{"name": "web", "resources": [{"group": "apps", "resource": "deployments"}]}]}


class Right(NamedTuple):
    """A verb on a resource or a path; without `name` on all, without `namespace` anywhere."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule on resources or on paths."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = msgspec.field(default=("",), name="apiGroups")
    resources: tuple[str, ...] = ()
    paths: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    names: tuple[str, ...] = msgspec.field(default=("",), name="resourceNames")


def documented(who: str) -> list[tuple[str, set[Right]]]:
    """Return where somebody's rights hold, and what they are, row by row."""
    rows = tables(section(SECURITY, "All rights"))[0]
    return [(row[4], _said(row)) for row in rows if row[0] == who]


def _said(row: list[str]) -> set[Right]:
    _, verbs, group, resource, where, _ = row
    scope, _, only = where.partition(", only ")
    place = ("".join(code(cell)) for cell in (group, resource, scope, only))
    return {Right(verb, *where) for where in [tuple(place)] for verb in verbs.split(", ")}


def given(rendered: str, name: str) -> set[Right]:
    """Return what the Roles and ClusterRoles of this name allow."""
    roles = [each for each in yaml.safe_load_all(rendered) if each and "rules" in each]
    return {
        Right(verb, group, resource, each["metadata"].get("namespace", ""), only)
        for each in roles
        if each["metadata"]["name"] == name
        for rule in msgspec.convert(each["rules"], list[Rule])
        for verb in rule.verbs
        for group in rule.groups
        for resource in rule.resources or rule.paths
        for only in rule.names
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
