"""Resources that a cluster in memory serves."""

from typing import Final

from sharder.core.api.meta import Resource
from sharder.core.names import parse_resource


def custom(name: str, *, kind: str, version: str = "v1", namespaced: bool = True) -> Resource:
    """Return a custom resource, such as `websites.example.com`."""
    return Resource(id=parse_resource(name), version=version, kind=kind, namespaced=namespaced)


_NAMESPACED: Final = {
    "configmaps": "ConfigMap",
    "endpoints": "Endpoints",
    "events": "Event",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "pods": "Pod",
    "resourcequotas": "ResourceQuota",
    "secrets": "Secret",
    "serviceaccounts": "ServiceAccount",
    "services": "Service",
    "cronjobs.batch": "CronJob",
    "daemonsets.apps": "DaemonSet",
    "deployments.apps": "Deployment",
    "ingresses.networking.k8s.io": "Ingress",
    "jobs.batch": "Job",
    "networkpolicies.networking.k8s.io": "NetworkPolicy",
    "poddisruptionbudgets.policy": "PodDisruptionBudget",
    "replicasets.apps": "ReplicaSet",
    "rolebindings.rbac.authorization.k8s.io": "RoleBinding",
    "roles.rbac.authorization.k8s.io": "Role",
    "statefulsets.apps": "StatefulSet",
}
_CLUSTER_SCOPED: Final = {
    "clusterrolebindings.rbac.authorization.k8s.io": "ClusterRoleBinding",
    "clusterroles.rbac.authorization.k8s.io": "ClusterRole",
    "namespaces": "Namespace",
    "nodes": "Node",
    "persistentvolumes": "PersistentVolume",
}
BUILT_IN: Final = {
    each.id: each
    for kinds, namespaced in ((_NAMESPACED, True), (_CLUSTER_SCOPED, False))
    for each in (custom(name, kind=kind, namespaced=namespaced) for name, kind in kinds.items())
}
"""Resources of Kubernetes that a controller is likely to use."""
