"""Facts about `sharder.core.preview.dump`: the usual plural, and what overrides it."""

import pytest

from sharder.core.preview.dump import plural_of


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
