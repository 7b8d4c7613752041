"""An operator on kopf that knows nothing of shards: it copies each Secret into a ConfigMap.

Run it by `kopf run`.
"""

import os
import time

import kopf
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from hack.playground import NAMESPACE

config.load_kube_config(os.environ["KUBECONFIG"])  # type: ignore[no-untyped-call]  # not annotated
core = client.CoreV1Api()


@kopf.on.create("secrets")
@kopf.on.update("secrets", field="data")
@kopf.on.resume("secrets")
def copy(name: str, body: kopf.Body, **_: object) -> None:
    time.sleep(0.3)
    page = client.V1ConfigMap(
        metadata=client.V1ObjectMeta(name=f"{name}-copy"), data=dict(body["data"])
    )
    kopf.adopt(page)
    try:
        core.create_namespaced_config_map(NAMESPACE, page)
    except ApiException as error:
        if error.status != 409:
            raise
        core.patch_namespaced_config_map(f"{name}-copy", NAMESPACE, {"data": page.data})
