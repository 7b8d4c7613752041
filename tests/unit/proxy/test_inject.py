"""The proxy in the manifest of a controller."""

from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from sharder.cli.command import UsageError
from sharder.cli.injected import print_injected
from sharder.core.errors import ConfigError
from sharder.proxy.inject import injected, without

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: job-controller}
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      serviceAccountName: job-controller
      initContainers: [{name: migrate, image: m}]
      containers:
      - name: manager
        env: &e [{name: A, value: b}, {name: P, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        volumeMounts: [{name: v, mountPath: /v}]
      - {name: other, env: *e}
      volumes: [{name: v, emptyDir: {}}]
"""


def test_the_controller_reaches_the_api_server_through_the_proxy() -> None:
    spec = injected(yaml.safe_load(DEPLOYMENT), "sharder:1", ["jobs"])["spec"]["template"]["spec"]

    proxy = spec["initContainers"][-1]
    assert (proxy["restartPolicy"], proxy["args"][:2]) == ("Always", ["proxy", "jobs"])
    for container in spec["containers"]:
        env = {each["name"]: each.get("value") for each in container["env"]}
        assert len(env) == len(container["env"])
        assert env["KUBERNETES_SERVICE_HOST"] == "127.0.0.1"
        assert env["KUBERNETES_SERVICE_PORT"] in proxy["args"]
        mount = container["volumeMounts"][-1]
        assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
        assert mount["name"] in {volume["name"] for volume in spec["volumes"]}
    assert spec["terminationGracePeriodSeconds"] == 50


def test_it_is_put_in_once_and_taken_out_without_a_trace() -> None:
    plain = yaml.safe_load(DEPLOYMENT)
    before = deepcopy(plain)
    once = injected(plain, "sharder:1", ["jobs"])

    assert injected(once, "sharder:1", ["jobs"]) == once
    assert without(once) == without(plain) == plain == before


def test_what_a_template_left_empty_is_as_if_it_was_not_there() -> None:
    manifest = yaml.safe_load(DEPLOYMENT)
    spec = manifest["spec"]["template"]["spec"]
    spec |= {"initContainers": None, "volumes": None, "terminationGracePeriodSeconds": None}
    spec["containers"] = [{"name": "manager", "env": None, "volumeMounts": None}]
    manifest["metadata"] = None

    once = injected(manifest, "sharder:1", ["jobs"])
    assert injected(once, "sharder:1", ["jobs"]) == once
    assert set(without(once)["spec"]["template"]["spec"]["containers"][0]) == {"name"}
    assert without(manifest) == manifest


def test_the_items_of_a_list_get_the_proxy_too() -> None:
    deployment, service = yaml.safe_load(DEPLOYMENT), {"kind": "Service"}
    items = {"kind": "List", "items": [deployment, service]}

    once = injected(items, "sharder:1", ["jobs"])
    assert once["items"] == [injected(deployment, "sharder:1", ["jobs"]), service]
    assert without(once) == items


OWN_WAYS = (
    {"args": ["--kubeconfig=/etc/kubeconfig"]},
    {"command": ["manager", "--master", "https://x"]},
    {"env": [{"name": "KUBERNETES_SERVICE_HOST", "value": "x"}]},
    {"env": [{"name": "KUBECONFIG", "value": "/x"}]},
    {"volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount/"}]},
)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("automountServiceAccountToken", False),
        ("hostNetwork", True),
        ("os", {"name": "windows"}),
        ("nodeSelector", {"kubernetes.io/os": "windows"}),
        *(("containers", [{"name": "a", **each}]) for each in OWN_WAYS),
    ],
)
def test_what_cannot_be_served_is_refused(field: str, value: object) -> None:
    manifest = yaml.safe_load(DEPLOYMENT)
    manifest["spec"]["template"]["spec"][field] = value

    with pytest.raises(ConfigError, match="Deployment job-controller"):
        injected(manifest, "sharder:1", ["jobs"])


@pytest.mark.parametrize(
    ("text", "error"),
    [("- a", "no man"), ("kind: Deployment", "spec"), ("items: [kind: Deployment]", "no Dep")],
)
def test_what_has_no_controller_is_refused(tmp_path: Path, text: str, error: str) -> None:
    (file := tmp_path / "values.yaml").write_text(text)

    with pytest.raises(UsageError, match=rf"values\.yaml.*{error}"):
        print_injected(str(file), "sharder:1", ["jobs"])


def test_scalars_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = "'7e12', '0o17', 'y', '08', '0XF', 1e3, 1:30, 2020-01-01T00:00:00Z"
    (file := tmp_path / "a.yaml").write_text(DEPLOYMENT.replace(": b", f": [{texts}]"))
    print_injected(str(file), "sharder:1", ["jobs"])

    printed = capsys.readouterr().out
    assert all(f"- {each}\n" in printed for each in texts.split(", "))
