"""For each Secret, keep a ConfigMap that lists its keys.

Run it with `kopf run --all-namespaces controller.py`.
"""

import kopf
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

import sharder.kopf

config.load_config()  # type: ignore[no-untyped-call]  # not annotated
core = client.CoreV1Api()

sharder.kopf.join(ring="my-ring", resources=["secrets"])


@kopf.on.create("secrets")
@kopf.on.update("secrets")
@kopf.on.resume("secrets")
def list_keys(name: str, namespace: str | None, body: kopf.Body, **_: object) -> None:
    keys = dict.fromkeys(body.get("data") or {}, "present")
    child = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"{name}-keys"), data=keys)
    kopf.adopt(child)
    apply(child, f"{name}-keys", namespace or "")


def apply(child: client.V1ConfigMap, name: str, namespace: str) -> None:
    try:
        core.create_namespaced_config_map(namespace, child)
    except ApiException as error:
        if error.status != 409:
            raise
        changes = client.V1ConfigMap(data=child.data)
        core.patch_namespaced_config_map(name, namespace, changes)
