"""What the documents say is so: links, names, tables, and code that compiles."""

import ast
import importlib
import re
import runpy
import tomllib
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from sharder.cli.app import run_command
from sharder.core import names
from sharder.core.leases.state import ShardState
from sharder.core.names import ShardName
from sharder.core.placement.strategies.hashing import HashRing
from sharder.core.status import conditions, status
from sharder.metrics.registry import service_metrics
from sharder.metrics.shard import shard_metrics
from sharder.shard.rights import CHILD_VERBS, LEASE_VERBS, MAIN_VERBS
from sharder.shard.settings import VARIABLES
from tests.support.documents import (
    DOCUMENTS,
    ROOT,
    Block,
    blocks,
    code,
    commands,
    prose,
    read,
    section,
    tables,
)

PROTOCOL = Path("docs/protocol.md")
LABELS = Path("docs/labels.md")
REFERENCE = Path("docs/reference.md")
ARCHITECTURE = Path("docs/architecture.md")
SDK = Path("docs/sdk.md")
GUIDE = Path("docs/shard-your-controller.md")
FOLDERS = ("sharder/", "webhook/", "tests/", "hack/", "charts/", "docs/", "examples/", ".ci/")


def anchors(document: Path) -> set[str]:
    """Return the anchors of a document's headings as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(document: Path) -> set[str]:
    """Return where a document's links lead to, those to other sites left out."""
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub("`[^`\n]+`", "", prose(document)))
    return {target for target in targets if not target.startswith("https://")}


def leads_somewhere(document: Path, target: str) -> bool:
    path, _, anchor = target.partition("#")
    place = (ROOT / document.parent / path).resolve() if path else ROOT / document
    return place.exists() and (not anchor or anchor in anchors(place.relative_to(ROOT)))


def has_section(document: Path, heading: str) -> bool:
    is_there = (ROOT / document).exists()
    return is_there and bool(re.search(rf"^#+ {heading}", read(document), re.MULTILINE))


def words_after(program: str) -> set[str]:
    """Return the first words that follow a program's name in what readers are to type."""
    documents = [each for each in DOCUMENTS if each.name != "CHANGELOG.md"]
    typed = [span for document in documents for span in code(prose(document))]
    typed += [command for document in documents for command in commands(read(document))]
    found = (re.match(rf"(?:[A-Z]+=\S+ )?{program} ([a-z][a-z-]*)", text) for text in typed)
    return {match[1] for match in found if match}


def series() -> set[str]:
    """Return the names of all metrics of the service; those of the library are left out."""
    registry = CollectorRegistry()
    service_metrics(registry, version="1")
    return {name for name in names_of(registry) if not name.startswith(("process_", "python_"))}


def series_of_shards() -> set[str]:
    """Return the names of all metrics of shards."""
    registry = CollectorRegistry()
    shard_metrics(registry)
    return names_of(registry)


def names_of(registry: CollectorRegistry) -> set[str]:
    """Return the names of the metrics of a registry."""
    return {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in registry.collect()
    }


GENERATED = {"commands", "configuration", "reference", "sdk-api"}


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_the_links_of_a_document_lead_somewhere(document: Path) -> None:
    assert [link for link in links(document) if not leads_somewhere(document, link)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_the_paths_that_a_document_names_exist(document: Path) -> None:
    named = [span for span in code(prose(document)) if span.startswith(FOLDERS)]

    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_sections_that_the_code_refers_to_exist() -> None:
    sources = [p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py")]
    texts = (" ".join(source.read_text().split()) for source in sources)
    named = {
        (document, heading)
        for text in texts
        for document, heading in re.findall(r'\((docs/[\w-]+\.md)(?:, "([^"]+)")?\)', text)
    }

    assert [(d, h) for d, h in sorted(named) if not has_section(Path(d), h)] == []


def test_the_make_targets_that_are_named_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert words_after("make") - set(targets) == set()


def test_the_commands_of_sharder_that_are_named_exist() -> None:
    named = words_after("sharder")

    assert {name: run_command([name, "--help"]) for name in named} == dict.fromkeys(named, 0)


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_a_block_of_yaml_parses(block: Block) -> None:
    assert [document for document in yaml.safe_load_all(block.text) if not document] == []


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_a_block_of_python_compiles_and_imports_what_there_is(block: Block) -> None:
    tree = ast.parse(block.text, str(block))
    imports = [
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sharder")
        for alias in node.names
    ]

    compile(tree, str(block), "exec")
    assert [i for i in imports if not hasattr(importlib.import_module(str(i[0])), i[1])] == []


def test_every_documented_ring_names_the_namespaces_of_its_shards() -> None:
    rings = [
        (str(block), ring["spec"])
        for block in blocks("yaml")
        for ring in yaml.safe_load_all(block.text)
        if ring.get("kind") == "ControllerRing"
    ]

    assert rings
    assert [place for place, spec in rings if not spec.get("shardNamespaces")] == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    navigation = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]
    listed = re.findall(r"'([\w/-]+\.md)'", repr(navigation))

    assert {str(page) for page in DOCUMENTS} - set(listed) == set()


@pytest.mark.parametrize("block", blocks("mermaid"), ids=str)
def test_a_drawing_has_one_title_for_those_who_cannot_see_it(block: Block) -> None:
    assert len(re.findall(r"^ +accTitle: \S", block.text, re.MULTILINE)) == 1


def test_the_words_of_the_pages_have_a_budget() -> None:
    pages = sorted((ROOT / "docs").glob("*.md"))
    others = ("README.md", "CHANGELOG.md", "charts/sharder/README.md")
    words = {page.stem: len(page.read_text().split()) for page in pages}

    assert sum(words.values()) + sum(len(read(Path(each)).split()) for each in others) <= 38_750
    assert max(count for page, count in words.items() if page not in GENERATED) <= 3000


def test_the_conditions_on_their_page_are_those_in_the_code_with_their_reasons() -> None:
    (rows,) = tables(section(REFERENCE, "Conditions"))
    named = [*vars(conditions).items(), *vars(status).items()]
    said = {text for name, text in named if name.isupper() and str(text).isidentifier()}

    assert {word for row in rows for cell in (0, 2, 3) for word in code(row[cell])} == (
        said.union(conditions.NOT_READY.values()) - {"True", "False", "Unknown"}
    )


def test_no_name_in_the_code_is_missing_on_its_page() -> None:
    values = [value for name, value in vars(names).items() if name.isupper()]
    text = read(LABELS) + read(PROTOCOL)

    assert [v for v in values if isinstance(v, str) and v not in text] == []


def test_the_states_in_the_protocol_are_those_in_the_code() -> None:
    states = {
        code(row[0])[0]: row[-1] == "yes"
        for row in tables(section(PROTOCOL, "Shards and their Leases"))[0]
    }

    dead = {ShardState.DEAD, ShardState.ORPHANED}
    assert states == {state.value: state not in dead for state in ShardState}


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_the_metrics_that_a_document_names_exist(document: Path) -> None:
    named = {*re.findall(r"controller_sharding_\w+", read(document))}

    assert named - series() - series_of_shards() == set()


def test_the_ring_in_the_protocol_is_the_one_in_the_code(tmp_path: Path) -> None:
    block = next(block for block in blocks("python") if block.document == PROTOCOL)
    (tmp_path / "ring.py").write_text(block.text)
    owner = runpy.run_path(str(tmp_path / "ring.py"))["owner"]
    shards = [f"op-{index}" for index in range(12)]
    keys = [f"/Secret/default/secret-{index}" for index in range(300)]
    ring = HashRing(map(ShardName, shards))

    assert [owner(key, shards) for key in keys] == [ring.owner(key) for key in keys]


@pytest.mark.parametrize(
    ("table", "package", "beside"),
    [(0, "sharder", {"webhook"}), (1, "sharder/core", set[str]())],
)
def test_the_map_has_every_module_and_no_other(table: int, package: str, beside: set[str]) -> None:
    modules = {
        str(path.relative_to(ROOT))
        for path in (ROOT / package).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    rows = tables(section(ARCHITECTURE, "Map"))[table]
    named = [name for row in rows for name in code(row[0])]

    assert sorted(named) == sorted(modules - {f"{package}/__init__.py"} | beside)


@pytest.mark.parametrize(("table", "package"), [(0, "sharder"), (1, "sharder.core")])
def test_the_map_is_in_the_order_that_the_import_contract_demands(
    table: int, package: str
) -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(c for c in contracts["contracts"] if c.get("containers") == [package])["layers"]
    rows = tables(section(ARCHITECTURE, "Map"))[table]
    row_of = {Path(name).stem: row for row, cells in enumerate(rows) for name in code(cells[0])}
    order = [row_of[name] for layer in layers for name in re.findall(r"\w+", layer)]

    assert order == sorted(order)


def test_the_variables_of_the_sdk_are_those_in_the_code() -> None:
    read = {f"SHARD_{name.upper()}" for name in (*VARIABLES, "name", "namespace")}

    assert set(re.findall(r"SHARD_[A-Z_]+", section(SDK, "Settings"))) == read


def test_the_metrics_of_a_shard_are_those_in_the_code() -> None:
    named = code(section(SDK, "Health and metrics"))
    prefixes = tuple(name.removesuffix("*") for name in named if name.endswith("*"))
    own = {name for name in series_of_shards() if not name.startswith(prefixes)}

    assert own == {name for name in named if name.startswith("controller_sharding_")}


def test_the_shard_in_kopf_that_is_shown_is_the_example() -> None:
    (shown,) = (block.text for block in blocks("python") if "sharder.kopf.join" in block.text)

    example = (ROOT / "examples/kopf-lister/controller.py").read_text()

    assert shown in example


def test_no_shard_in_an_example_may_watch_leases() -> None:
    roles = [
        body
        for manifest in (ROOT / "examples").glob("*/deploy/rbac.yaml")
        for body in yaml.safe_load_all(manifest.read_text())
        if body["kind"] == "Role"
    ]

    verbs = [
        set(rule["verbs"])
        for role in roles
        for rule in role["rules"]
        if "leases" in rule["resources"]
    ]

    assert verbs
    assert [each for each in verbs if "watch" in each] == []


def test_the_rights_of_a_shard_in_python_are_those_in_the_code() -> None:
    rows = tables(section(GUIDE, "Deploy"))[0]

    (shown,) = (row[1:4] for row in rows if row[0] == "Python SDK")

    assert shown == [", ".join(verbs) for verbs in (MAIN_VERBS, CHILD_VERBS, LEASE_VERBS)]
