"""Facts about `sharder.core.plan.dump`: what a file may hold, and the plan that follows."""

from collections.abc import Mapping

import msgspec
import pytest

from sharder.core.api.meta import Json
from sharder.core.errors import ConfigError
from sharder.core.plan.dump import decode_dump, parse_stream, plan_dump, plural_of
from sharder.core.plan.plan import PlanReport
from tests.support.values import lease

LEASE: Json = msgspec.to_builtins(lease("a"))
RING: Mapping[str, Json] = {
    "apiVersion": "sharding.timebertt.dev/v1alpha1",
    "kind": "ControllerRing",
    "metadata": {"name": "demo", "creationTimestamp": None},
    "spec": {
        "resources": [
            {"group": "", "resource": "secrets", "controlledResources": [{"resource": "pods"}]},
            {"group": "farm.example", "resource": "oxen", "controlledResources": None},
        ]
    },
    "status": {},
}


def thing(
    kind: str, name: str, *, version: str = "v1", namespace: str = "default", **metadata: Json
) -> Mapping[str, Json]:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, **metadata},
    }


def stream(*documents: Json) -> bytes:
    return b"\n".join(map(msgspec.json.encode, documents))


def plan(*documents: Json) -> PlanReport:
    dump = decode_dump(stream(RING, *documents))
    return plan_dump(dump, dump.newest_renewal())


def planned(*documents: Json) -> dict[str, str | None]:
    return {a.object: a.to for a in plan(*documents).assignments}


def test_the_servers_own_plural_overrides_the_usual_one() -> None:
    served: Json = {
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "groupVersion": "farm.example/v1",
        "resources": [
            {"name": "oxen", "kind": "Ox", "verbs": ["list"]},
            {"name": "oxen/scale", "kind": "Ox", "group": "autoscaling"},
        ],
    }
    ox = thing("Ox", "bill", version="farm.example/v1")

    assert planned(LEASE, ox) == {}
    assert planned(LEASE, ox, served) == {"farm.example/Ox/default/bill": "a"}


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        ([], "exactly one ControllerRing, found: none"),
        ([RING, RING], "exactly one ControllerRing, found: demo, demo"),
        ([RING, {"metadata": {"name": "x"}}], "an object in the dump has no kind"),
        ([RING, "text"], "a dump must contain only Kubernetes objects, found: 'text'"),
        ([RING, {"kind": "Secret"}], "a Secret in the dump has no name"),
        ([RING, {"kind": "Secret", "metadata": 3}], "Secret: Expected"),
        ([RING, {"kind": "Secret", "metadata": {"name": 3}}], "Secret 3: Expected `str`"),
        ([RING, {"kind": "APIResourceList"}], "APIResourceList: Object missing required"),
    ],
)
def test_a_file_that_cannot_be_planned_from_says_why(documents: list[Json], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        decode_dump(b"\n---\n".join(map(msgspec.json.encode, documents)))


def test_empty_documents_do_not_matter() -> None:
    data = b"---\n---\n" + msgspec.json.encode(RING) + b"\n---\n"

    assert decode_dump(data).ring.name == "demo"


def test_items_of_a_typed_list_need_not_say_their_kind() -> None:
    secrets: Json = {
        "apiVersion": "v1",
        "kind": "SecretList",
        "items": [{"metadata": {"name": "s"}}],
    }
    empty: Json = {"apiVersion": "v1", "kind": "PodList", "items": None}

    assert list(planned(secrets, empty)) == ["/Secret//s"]


@pytest.mark.parametrize(
    "data",
    [
        b"a: 1\n---\nb: 2\n",
        b'{"a": 1}\n{"b": 2}',
        b'{"a": 1}{"b": 2}\n\n',
        b'[{"a": 1}, {"b": 2}]',
        b'\xef\xbb\xbf{"a": 1} {"b": 2}',
        b'{"a": 1}\n---\n{"b": 2}\n',
        b"{a: 1}\n---\n{b: 2}",
    ],
)
def test_documents_come_in_yaml_or_json(data: bytes) -> None:
    assert parse_stream(data) == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\xff", "not UTF-8"),
        (b"a: [", "neither YAML nor JSON"),
        (b'{"a": ', "neither YAML nor JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"a: !!int x", "neither YAML nor JSON"),
    ],
)
def test_what_is_neither_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_stream(data)


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Secret", "secrets"),
        ("ConfigMap", "configmaps"),
        ("NetworkPolicy", "networkpolicies"),
        ("Ingress", "ingresses"),
        ("IngressClass", "ingressclasses"),
        ("Endpoints", "endpoints"),
        ("Gateway", "gateways"),
        ("Mesh", "meshes"),
        ("Switch", "switches"),
        ("Box", "boxes"),
        ("Y", "ies"),
    ],
)
def test_a_kind_has_its_usual_plural(kind: str, plural: str) -> None:
    assert plural_of(kind) == plural


def test_a_time_without_quotes_is_a_text() -> None:
    assert parse_stream(b"renewTime: 2026-03-01T12:00:00Z") == [
        {"renewTime": "2026-03-01T12:00:00Z"}
    ]


def test_namespaces_of_the_dump_tell_what_the_ring_selects() -> None:
    secrets = [thing("Secret", "s", namespace=name) for name in ("one", "kube-system")]
    spaces: list[Json] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in ("one", "kube-system")
    ]

    assert planned(LEASE, *secrets) == {"/Secret/one/s": "a"}
    assert planned(LEASE, *secrets, *spaces).keys() >= {"/Secret/one/s"}
