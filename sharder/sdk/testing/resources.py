"""Resources that a cluster in memory serves."""

from collections.abc import Mapping
from typing import Final

from sharder.core.api.meta import Resource
from sharder.core.names import GroupResource
from sharder.shard.identity import parse_resource


def custom(name: str, *, kind: str, version: str = "v1", namespaced: bool = True) -> Resource:
    """Return a custom resource, such as `websites.example.com`."""
    return Resource(id=parse_resource(name), version=version, kind=kind, namespaced=namespaced)


def _known() -> Mapping[GroupResource, Resource]:
    namespaced = {
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
    cluster_scoped = {
        "clusterrolebindings.rbac.authorization.k8s.io": "ClusterRoleBinding",
        "clusterroles.rbac.authorization.k8s.io": "ClusterRole",
        "namespaces": "Namespace",
        "nodes": "Node",
        "persistentvolumes": "PersistentVolume",
    }
    known = [custom(name, kind=kind) for name, kind in namespaced.items()]
    known += [custom(name, kind=kind, namespaced=False) for name, kind in cluster_scoped.items()]
    return {each.id: each for each in known}


BUILT_IN: Final = _known()
"""Resources of Kubernetes that a controller is likely to use."""
