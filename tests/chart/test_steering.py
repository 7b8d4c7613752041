"""The policy that asks for a right to steer: rendered for the rings that want it."""

from collections.abc import Mapping

from tests.chart.rendering import Helm, Manifest, decode_manifests

SECRETS = [{"resource": "secrets", "controlledResources": [{"resource": "configmaps"}]}]
WEB = [{"group": "apps", "resource": "deployments"}]
POLICY = "ValidatingAdmissionPolicy"


def policies(rendered: str) -> Mapping[str, Manifest]:
    return {m.metadata.name: m for m in decode_manifests(rendered) if m.kind == POLICY}


def test_by_default_no_right_to_steer_is_asked_for(helm: Helm) -> None:
    rings = [
        {"name": "one", "resources": SECRETS},
        {"name": "other", "resources": WEB, "steering": "Anyone"},
        {"name": "none", "resources": [], "steering": "Authorized"},
    ]

    assert not policies(helm.template({"rings": rings}))


def test_only_rings_that_want_it_ask_for_the_right_on_all_their_resources(helm: Helm) -> None:
    rings = [
        {"name": "one", "resources": SECRETS, "steering": "Authorized"},
        {"name": "other", "resources": WEB},
    ]

    rendered = helm.template({"rings": rings})

    (policy,) = policies(rendered).values()
    assert policy.metadata.name == "sharder-steering-one"
    assert policy.spec["matchConstraints"] == {
        "resourceRules": [
            {
                "apiGroups": [""],
                "apiVersions": ["*"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["configmaps", "configmaps/status", "secrets", "secrets/status"],
            }
        ]
    }
    (binding,) = (m for m in decode_manifests(rendered) if m.kind == f"{POLICY}Binding")
    assert binding.spec == {"policyName": policy.metadata.name, "validationActions": ["Deny"]}
