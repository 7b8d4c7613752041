"""Where the webhook's certificate comes from: the sharder's Secret, or cert-manager."""

import pytest

from sharder.config.load import load
from sharder.config.settings import CertificateMode, Settings
from tests.chart.rendering import Helm, Manifest, decode_manifests, find, pod_of

BY_CERT_MANAGER = {"certManager": {"enabled": True}}
INJECT = "cert-manager.io/inject-ca-from"


def settings_of(rendered: str) -> Settings:
    text = find(rendered, "ConfigMap", "sharder").data["config.yaml"]
    return load(text.encode(), strict=True).settings


def secrets_of(rendered: str) -> dict[str, str]:
    """Return the Secrets by the directory in which the pod sees them."""
    mounted = pod_of(rendered).mounted.items()
    return {path: volume.secret["secretName"] for path, volume in mounted if volume.secret}


def of_cert_manager(rendered: str) -> dict[str, Manifest]:
    return {
        f"{each.kind} {each.metadata.name}": each
        for each in decode_manifests(rendered)
        if each.api_version == "cert-manager.io/v1"
    }


def test_the_secret_has_no_data_and_neither_helm_nor_argo_cd_deletes_it(helm: Helm) -> None:
    secret = find(helm.template(), "Secret", "sharder-certificates")

    assert not secret.data
    assert secret.type == "Opaque"
    assert secret.metadata.annotations == {
        "helm.sh/hook": "pre-install,pre-upgrade",
        "helm.sh/hook-delete-policy": "hook-failed",
        "argocd.argoproj.io/hook": "Skip",
    }


def test_cert_manager_issues_to_the_name_of_the_service(helm: Helm) -> None:
    rendered = helm.template(BY_CERT_MANAGER, namespace="ns")

    spec = of_cert_manager(rendered)["Certificate sharder"].spec
    assert spec == {
        "dnsNames": ["sharder.ns.svc"],
        "secretName": "sharder-cert-manager",
        "usages": ["digital signature", "server auth"],
        "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
        "issuerRef": {"kind": "Issuer", "name": "sharder-ca"},
    }


def test_by_default_cert_manager_has_a_ca_of_its_own(helm: Helm) -> None:
    objects = of_cert_manager(helm.template(BY_CERT_MANAGER))

    authority = objects["Certificate sharder-ca"].spec
    assert authority == {
        "isCA": True,
        "commonName": "sharder-ca",
        "secretName": "sharder-cert-manager-ca",
        # As long as the sharder's own: each new one has to be spread before it is used.
        "duration": f"{10 * 365 * 24}h",
        "privateKey": {"algorithm": "ECDSA", "size": 256},
        "issuerRef": {
            "group": "cert-manager.io",
            "kind": "Issuer",
            "name": "sharder-self-signed",
        },
    }
    assert objects["Issuer sharder-self-signed"].spec == {"selfSigned": {}}
    assert objects["Issuer sharder-ca"].spec == {"ca": {"secretName": authority["secretName"]}}


def test_the_pods_read_what_cert_manager_writes(helm: Helm) -> None:
    rendered = helm.template(BY_CERT_MANAGER)

    secret = of_cert_manager(rendered)["Certificate sharder"].spec["secretName"]
    settings = settings_of(rendered)
    assert settings.certificates.mode is CertificateMode.FILES
    assert secrets_of(rendered) == {settings.webhook.server.cert_dir: secret}


def test_cert_manager_is_configured_to_write_the_ca_into_the_webhooks(helm: Helm) -> None:
    annotations = {"webhook": {"config": {"annotations": {"a": "b"}}}}

    rendered = helm.template({**BY_CERT_MANAGER, "config": annotations}, namespace="ns")

    assert settings_of(rendered).webhook.config.annotations == {INJECT: "ns/sharder", "a": "b"}


def test_with_cert_manager_the_sharder_needs_no_secret(helm: Helm) -> None:
    rendered = helm.template(BY_CERT_MANAGER)

    assert "Secret" not in {each.kind for each in decode_manifests(rendered)}
    rules = find(rendered, "Role", "sharder").rules
    assert "secrets" not in {name for rule in rules for name in rule.resources}


@pytest.mark.parametrize(
    "config",
    [
        {
            "certificates": {"mode": "Files", "secretName": "mine"},
            "webhook": {"config": {"clientConfig": {"caBundle": "bWluZQ=="}}},
        },
        {
            "certificates": {"secretName": "mine"},
            "webhook": {"config": {"annotations": {INJECT: "ns/mine"}}},
        },
    ],
)
def test_files_of_another_program_are_mounted(helm: Helm, config: dict[str, object]) -> None:
    rendered = helm.template({"config": config})

    cert_dir = settings_of(rendered).webhook.server.cert_dir
    assert secrets_of(rendered) == {cert_dir: "mine"}
    assert not of_cert_manager(rendered)
