"""Put the proxy into the manifest of a controller, or take it out again.  Pure.

The proxy is a native sidecar (an init container that restarts): it starts before the controller
and stops after it.  It writes the files of a service account for the controller, with its own
authority, so the controller needs no flag.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Final, TypeAlias

from sharder.core.diagnosis.proxies import HANDOVER_SECONDS
from sharder.core.errors import ConfigError

Manifest: TypeAlias = dict[str, Any]

NAME: Final = "sharder-proxy"
ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
OWN: Final = "/run/sharder-proxy"
OS_LABEL: Final = "kubernetes.io/os"
PORT: Final = 16443
DEFAULT_GRACE: Final = 30
KINDS: Final = frozenset(("Deployment", "StatefulSet"))
_ADDRESS: Final = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(PORT)}
_PAST: Final = frozenset((*_ADDRESS, "KUBECONFIG", "--kubeconfig", "-kubeconfig", "--master"))
"""Variables and flags by which a controller finds another way to the API server."""


def injected(manifest: Manifest, image: str, arguments: Sequence[str]) -> Manifest:
    """Return the manifest with the proxy, or as it is if it has no pods; idempotent.

    `arguments` are those of the proxy, the ring first.

    Raises:
        ConfigError: the pods cannot be served.
    """
    if manifest.get("kind") == "List":
        return {
            **manifest,
            "items": [injected(each, image, arguments) for each in manifest["items"]],
        }
    if manifest.get("kind") not in KINDS:
        return manifest
    manifest = deepcopy(without(manifest))
    spec = _pod_of(manifest)
    if problem := _problem(spec):
        name = (manifest.get("metadata") or {}).get("name", "")
        raise ConfigError(f"{manifest['kind']} {name}: {problem}")
    for container in spec["containers"]:
        mount = {"name": NAME, "mountPath": ACCOUNT, "readOnly": True}
        _add(container, "volumeMounts", mount)
        _add(container, "env", *({"name": key, "value": _ADDRESS[key]} for key in _ADDRESS))
    _add(spec, "initContainers", _sidecar(image, arguments))
    _add(spec, "volumes", {"name": NAME, "emptyDir": {"medium": "Memory"}})
    grace = spec.get("terminationGracePeriodSeconds")
    spec["terminationGracePeriodSeconds"] = HANDOVER_SECONDS + (
        DEFAULT_GRACE if grace is None else grace
    )
    return manifest


def without(manifest: Manifest) -> Manifest:
    """Return the manifest without the proxy; what was never injected is returned as it is."""
    if manifest.get("kind") == "List":
        return {**manifest, "items": [without(each) for each in manifest["items"]]}
    if manifest.get("kind") not in KINDS or not _has_proxy(_pod_of(manifest)):
        return manifest
    manifest = deepcopy(manifest)
    spec = _pod_of(manifest)
    for holder in (spec, *spec["containers"]):
        for field in ("volumeMounts", "env", "initContainers", "volumes"):
            _drop(holder, field)
    grace = spec["terminationGracePeriodSeconds"] - HANDOVER_SECONDS
    if grace == DEFAULT_GRACE:
        del spec["terminationGracePeriodSeconds"]
    else:
        spec["terminationGracePeriodSeconds"] = grace
    return manifest


def _problem(spec: Manifest) -> str:
    """Return why a pod cannot be served, empty if it can."""
    if spec.get("automountServiceAccountToken") is False:
        return "the proxy needs the token of the service account: mount it"
    if spec.get("hostNetwork"):
        return "with hostNetwork, two proxies of a node would share a port"
    systems = (spec.get("os") or {}).get("name"), (spec.get("nodeSelector") or {}).get(OS_LABEL)
    if "windows" in systems:
        return "the proxy has no image for Windows"
    for container in spec.get("containers") or ():
        name, mounts = container["name"], container.get("volumeMounts") or ()
        if any(str(mount.get("mountPath", "")).rstrip("/") == ACCOUNT for mount in mounts):
            return f"container {name} mounts a token of its own"
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        given = {str(word).partition("=")[0] for word in words}
        given |= {each["name"] for each in container.get("env") or ()}
        if past := sorted(given & _PAST):
            return f"container {name} would not use the proxy: leave out {', '.join(past)}"
    return ""


def _sidecar(image: str, arguments: Sequence[str]) -> Manifest:
    fields = {
        "SHARD_NAME": "metadata.name",
        "SHARD_NAMESPACE": "metadata.namespace",
        "POD_UID": "metadata.uid",
    }
    env = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in fields.items()
    ]
    return {
        "name": NAME,
        "image": image,
        "args": ["proxy", *arguments, "--port", str(PORT), "--account", OWN],
        "restartPolicy": "Always",
        "env": [*env, {"name": "SHARD_HTTP_ADDRESS", "value": f":{PORT + 1}"}],
        "ports": [{"name": "proxy-metrics", "containerPort": PORT + 1}],
        "volumeMounts": [{"name": NAME, "mountPath": OWN}],
        # The controller starts when the files of its account are there.
        "startupProbe": {
            "exec": {"command": ["test", "-s", f"{OWN}/token"]},
            "periodSeconds": 1,
            "failureThreshold": 120,
        },
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": PORT + 1}, "periodSeconds": 5},
        "resources": {
            "requests": {"cpu": "50m", "memory": "96Mi"},
            "limits": {"memory": "256Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _pod_of(manifest: Manifest) -> Manifest:
    pod: Manifest = manifest["spec"]["template"]["spec"]
    return pod


def _has_proxy(spec: Manifest) -> bool:
    return any(each["name"] == NAME for each in spec.get("initContainers") or ())


def _add(holder: Manifest, field: str, *entries: Manifest) -> None:
    """Add to a list, which can be null, as templates leave it, or shared by an anchor of YAML."""
    holder[field] = [*(holder.get(field) or ()), *entries]


def _drop(holder: Manifest, field: str) -> None:
    """Remove our entries of a list, and the list if it is empty then."""
    left = [each for each in holder.get(field) or () if not _is_ours(each)]
    if left:
        holder[field] = left
    else:
        holder.pop(field, None)


def _is_ours(entry: Manifest) -> bool:
    return entry["name"] == NAME or (entry["name"], entry.get("value")) in _ADDRESS.items()
