"""An operator on kopf that knows nothing of shards: it keeps checksums of each Secret.

Run it by `kopf run`.
"""

import os
import time
from base64 import b64decode
from hashlib import sha256

import kopf
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from hack.playground import NAMESPACE

config.load_kube_config(os.environ["KUBECONFIG"])  # type: ignore[no-untyped-call]  # not annotated
core = client.CoreV1Api()


@kopf.on.create("secrets")
@kopf.on.update("secrets", field="data")
@kopf.on.resume("secrets")
def check(name: str, body: kopf.Body, **_: object) -> None:
    time.sleep(0.3)
    sums = {key: sha256(b64decode(value)).hexdigest() for key, value in body["data"].items()}
    child = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=f"{name}-checksums"), data=sums)
    kopf.adopt(child)
    try:
        core.create_namespaced_config_map(NAMESPACE, child)
    except ApiException as error:
        if error.status != 409:
            raise
        core.patch_namespaced_config_map(f"{name}-checksums", NAMESPACE, {"data": sums})
