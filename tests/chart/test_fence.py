"""The fence of a ring is the same from the chart and from `sharder fence`."""

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import TypeAlias

import msgspec

from sharder.core.api.meta import ObjectMeta
from sharder.core.api.ring import ControllerRing, RingResource, RingSpec
from sharder.core.fence import fence_of
from sharder.core.names import ObjectRef
from tests.chart.matrix import MATRIX
from tests.chart.rendering import Helm, Manifest, decode_manifests

Part: TypeAlias = tuple[str, str, str, object]


class Account(msgspec.Struct, frozen=True):
    """A ServiceAccount in the values."""

    namespace: str
    name: str


class Ring(msgspec.Struct, frozen=True, rename="camel"):
    """A ring in the values, as far as its fence depends on it."""

    name: str
    resources: tuple[RingResource, ...]
    service_accounts: tuple[Account, ...] = ()


def rings_of(values: Mapping[str, object]) -> list[Ring]:
    return msgspec.convert(values["rings"], list[Ring])


def parts(found: Iterable[Manifest]) -> list[Part]:
    """Return all but the labels of the policies and their bindings."""
    return [
        (each.api_version, each.kind, each.metadata.name, each.spec)
        for each in found
        if "AdmissionPolicy" in each.kind
    ]


def by_command(ring: Ring) -> list[Part]:
    """Return what `sharder fence` prints."""
    accounts = [ObjectRef(each.namespace, each.name) for each in ring.service_accounts]
    spec = RingSpec(resources=ring.resources)
    of = ControllerRing(metadata=ObjectMeta(name=ring.name), spec=spec)
    return parts(msgspec.convert(each, Manifest) for each in fence_of(of, accounts))


def test_the_chart_renders_what_the_command_prints(helm: Helm) -> None:
    values = MATRIX["fences"]
    fenced = [ring for ring in rings_of(values) if ring.service_accounts]
    assert len(fenced) == 2

    rendered = parts(decode_manifests(helm.template(values)))

    printed = [part for ring in fenced for part in by_command(ring)]
    by_kind_and_name = itemgetter(1, 2)
    assert sorted(rendered, key=by_kind_and_name) == sorted(printed, key=by_kind_and_name)


def test_without_accounts_there_is_no_fence(helm: Helm) -> None:
    assert parts(decode_manifests(helm.template(MATRIX["rings"]))) == []
