"""Who may steer a ring, as a real API server says by the policy of the chart."""

from collections.abc import Iterator

import pytest
import yaml

from hack import binaries
from hack.control_plane import ControlPlane, KubectlError
from sharder.core import names
from sharder.core.names import RingName
from tests.chart.rendering import Helm
from tests.support.eventually import eventually

RING = RingName("my-ring")
NAMESPACE, TENANT, OPERATOR = "tenant", "alice", "olga"
STEERING = {
    "labels": [
        names.pin_label(RING),
        names.POOL_LABEL,
        names.WANTED_REGION_LABEL,
        names.WANTED_ZONE_LABEL,
    ],
    "annotations": [
        names.LOAD_ANNOTATION,
        names.MOVE_COST_ANNOTATION,
        names.PRIORITY_ANNOTATION,
        names.QOS_CLASS_ANNOTATION,
    ],
}
RIGHTS = f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: steering}}
rules:
  - apiGroups: [sharding.timebertt.dev]
    resources: [controllerrings]
    resourceNames: [{RING}]
    verbs: [steer]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: steering}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: steering}}
subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {OPERATOR}}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: edit, namespace: {NAMESPACE}}}
rules:
  - apiGroups: [""]
    resources: [configmaps]
    verbs: [get, create, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: edit, namespace: {NAMESPACE}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: edit}}
subjects:
  - {{apiGroup: rbac.authorization.k8s.io, kind: User, name: {TENANT}}}
  - {{apiGroup: rbac.authorization.k8s.io, kind: User, name: {OPERATOR}}}
"""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server with the policy, without a sharder."""
    helm = Helm(program=binaries.helm(), home=tmp_path_factory.mktemp("helm"))
    ring = {
        "name": RING,
        "resources": [{"resource": "configmaps"}],
        "steering": "Authorized",
    }
    rendered = helm.template({"rings": [ring]})
    policy = [
        m for m in yaml.load_all(rendered, Loader=yaml.CSafeLoader) if m and "Policy" in m["kind"]
    ]
    with ControlPlane() as plane:
        plane.kubectl("create", "namespace", NAMESPACE)
        plane.apply(RIGHTS)
        plane.apply(policy)
        yield plane


def written(plane: ControlPlane, user: str, *words: str) -> bool:
    """Return whether the user may write this, as a trial; `words` are for kubectl."""
    try:
        plane.kubectl(*words, "-n", NAMESPACE, "--dry-run=server", "--as", user)
    except KubectlError as error:
        if "takes the verb steer on the ControllerRing my-ring" not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("place", STEERING)
async def test_without_the_right_the_steering_labels_of_an_object_cannot_be_written(
    plane: ControlPlane, place: str
) -> None:
    name, verb = f"said-{place}", place.removesuffix("s").replace("annotation", "annotate")
    plane.kubectl("create", "configmap", name, "-n", NAMESPACE)
    said = [f"{key}=1" for key in STEERING[place]]

    async def refused() -> None:  # a policy is there some time after it was created
        assert not written(plane, TENANT, verb, "configmap", name, said[0])

    await eventually(refused, within=60)
    assert not any(written(plane, TENANT, verb, "configmap", name, each) for each in said)
    assert all(written(plane, OPERATOR, verb, "configmap", name, each) for each in said)
    assert written(plane, TENANT, verb, "configmap", name, "app=web")

    plane.kubectl(verb, "configmap", name, "-n", NAMESPACE, *said)
    change = ("patch", "configmap", name, "--type=merge", "-p")
    assert written(plane, TENANT, *change, '{"data": {"key": "value"}}')
    for key in STEERING[place]:
        for value in ("null", '"2"'):
            body = f'{{"metadata": {{"{place}": {{"{key}": {value}}}}}}}'
            assert not written(plane, TENANT, *change, body)
            assert written(plane, OPERATOR, *change, body)
