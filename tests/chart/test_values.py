"""The schema of the values: it says of each what it is, and lets no mistake pass."""

from collections.abc import Iterator, Mapping

import msgspec
import pytest
import yaml

from sharder.config.fields import Path, fields
from tests.chart.matrix import MATRIX
from tests.chart.rendering import CHART, CRD, REQUIRED, SCHEMA, Helm, HelmError


class Schema(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A JSON schema, with those of its words that the tests look at."""

    type: str | tuple[str, ...] = ()
    ref: str = msgspec.field(name="$ref", default="")
    description: str = ""
    properties: Mapping[str, "Schema"] = {}
    additional_properties: "bool | Schema | None" = None
    enum: tuple[str, ...] = ()
    items: "Schema | None" = None
    definitions: Mapping[str, "Schema"] = {}


ROOT = msgspec.json.decode(SCHEMA.read_bytes(), type=Schema)
CONFIG = ROOT.properties["config"]
TYPE = {("apiVersion",), ("kind",)}
CRD_NAME = "controllerrings.sharding.timebertt.dev"


def below(schema: Schema, path: Path = ()) -> Iterator[tuple[Path, Schema]]:
    """Yield a schema and all those inside of it."""
    yield path, schema
    for name, child in {**schema.properties, **schema.definitions}.items():
        yield from below(child, (*path, name))
    if schema.items is not None:
        yield from below(schema.items, (*path, "[]"))


def leaves(schema: Schema, path: Path = ()) -> Iterator[tuple[Path, Schema]]:
    """Yield what has no fields of its own."""
    if not schema.properties:
        yield path, schema
    for name, child in schema.properties.items():
        yield from leaves(child, (*path, name))


def test_every_value_is_described() -> None:
    undescribed = [path for path, s in below(ROOT) if path and not (s.description or s.ref)]

    assert not [path for path in undescribed if path[-1] != "[]"]


def test_whatever_has_fields_takes_no_others() -> None:
    lax = [
        path for path, s in below(ROOT) if s.properties and s.additional_properties is not False
    ]

    assert not lax


def test_the_schema_knows_the_values_that_have_a_default_and_no_others() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    assert ROOT.properties.keys() == values.keys() | {"global", "enabled", "shardedResources"}


def test_the_schema_knows_the_fields_of_the_configuration() -> None:
    known = {path for path, _ in leaves(CONFIG)}

    assert known == fields().keys() | TYPE


def nested(path: str, value: object) -> dict[str, object]:
    """Return values in which one is set, by its dotted path."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return msgspec.convert(value, dict[str, object])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replicas", 2),
        ("replicaCount", -1),
        ("image.pullPolicy", "Sometimes"),
        ("image.digest", "0a1b"),
        ("image.repository", "registry.example.com:5000/sharder:0.2.0"),
        ("fullnameOverride", "Not A Name"),
        ("rings", [{"resources": []}]),
        ("rings", [{"name": "a", "resources": [{"group": "apps"}]}]),
        ("rings", [{"name": "a", "resources": [{"resource": "*"}]}]),
        ("rings", [{"name": "a", "resources": [{"resource": "secrets", "group": "*"}]}]),
        ("rings", [{"name": "a", "resources": [{"resource": "pods/status"}]}]),
        ("rings", [{"name": "a", "resources": [{"resource": "a", "hashKey": "Name"}]}]),
        ("rings", [{"name": "a", "resources": [{"resource": "a", "verbs": ["get"]}]}]),
        ("config.controller.sharder.syncPeriode", "5m"),
        ("config.controller.sharder.syncPeriod", "five minutes"),
        ("config.controller.sharder.concurrentMoves", 0),
        ("config.webhook.server.port", 0),
        ("config.webhook.config.clientConfig.url", "http://example.com"),
        ("config.metrics.bindAddress", "8080"),
        ("config.certificates.mode", "Vault"),
        ("rings", [{"name": "a", "resources": [], "spec": {"strategy": "Spread"}}]),
        ("rings", [{"name": "a", "resources": [], "namespaces": []}]),
        ("rings", [{"name": "a", "resources": [], "namespaces": ["*"]}]),
        ("serviceMonitor.serviceAccount", {"name": "prometheus"}),
        ("prometheusRule.disabled", ["SharderAdmissionSlo"]),
        ("commonLabels", {"a": 1}),
        ("certManager.issuerRef", {"kind": "ClusterIssuer"}),
        ("terminationGracePeriodSeconds", 0),
    ],
)
def test_a_mistake_in_the_values_is_refused(helm: Helm, path: str, value: object) -> None:
    with pytest.raises(HelmError, match="values don't meet the specifications of the schema"):
        helm.template(nested(path, value))


@pytest.mark.parametrize("case", MATRIX)
def test_the_chart_with_values_passes_the_strict_lint(helm: Helm, case: str) -> None:
    said = helm.run("lint", "--strict", str(CHART), values={**REQUIRED, **MATRIX[case]})

    assert "0 chart(s) failed" in said


@pytest.mark.parametrize("case", MATRIX)
def test_with_values_all_objects_are_different_and_carry_the_labels(helm: Helm, case: str) -> None:
    objects = yaml.load_all(helm.template(MATRIX[case]), Loader=yaml.CSafeLoader)
    rendered = [*filter(None, objects)]

    metadata = [each["metadata"] for each in rendered]
    names = [
        (each["kind"], meta.get("namespace"), meta["name"])
        for each, meta in zip(rendered, metadata, strict=True)
    ]
    assert len({*names}) == len(names)
    assert [m["name"] for m in metadata if "helm.sh/chart" not in m["labels"]] == [CRD_NAME]


def test_common_labels_and_annotations_are_on_everything_but_the_crd(helm: Helm) -> None:
    values = MATRIX["labels and annotations everywhere"]
    rendered = [*filter(None, yaml.load_all(helm.template(values), Loader=yaml.CSafeLoader))]
    pod = next(each["spec"]["template"] for each in rendered if each["kind"] == "Deployment")

    metadata = [*(each["metadata"] for each in rendered), pod["metadata"]]
    bare = [
        meta["name"]
        for meta in metadata
        if "app.kubernetes.io/part-of" not in meta["labels"]
        or "owner" not in meta.get("annotations", {})
    ]
    assert bare == [CRD_NAME]


def test_the_schema_knows_the_fields_of_a_ring() -> None:
    crd = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]
    fields_of_ring = crd["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]

    known = ROOT.definitions["ring"].properties["spec"].properties

    assert known.keys() == fields_of_ring.keys() - {"resources"}
