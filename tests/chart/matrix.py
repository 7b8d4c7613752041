"""Values that render, one set for each thing that is special about them."""

from collections.abc import Mapping
from typing import Final

MATRIX: Final[Mapping[str, Mapping[str, object]]] = {
    "defaults": {},
    "one replica": {"replicaCount": 1},
    "rings": {
        "rings": [
            {
                "name": "web",
                "resources": [
                    {
                        "group": "apps",
                        "resource": "deployments",
                        "hashKey": "Namespace",
                        "controlledResources": [{"group": "apps", "resource": "replicasets"}],
                    }
                ],
            }
        ]
    },
    "cert-manager": {
        "certManager": {
            "enabled": True,
            "issuerRef": {"name": "ca", "kind": "ClusterIssuer", "group": "cert-manager.io"},
        }
    },
    "an own ca of cert-manager": {"certManager": {"enabled": True}},
    "files": {"config": {"certificates": {"mode": "Files", "secretName": "mine"}}},
    "network policy": {
        "networkPolicy": {
            "enabled": True,
            "webhookFrom": [{"ipBlock": {"cidr": "192.0.2.0/28"}}],
            "metricsFrom": [{"namespaceSelector": {}}],
            "egress": [{"to": [{"ipBlock": {"cidr": "192.0.2.0/28"}}]}],
        }
    },
    "no metrics": {
        "networkPolicy": {"enabled": True},
        "config": {"metrics": {"bindAddress": "0"}},
    },
    "of a parent chart": {"global": {"registry": "example.com"}, "enabled": True},
    "names that look like something else": {
        "nameOverride": "yes",
        "serviceAccount": {"name": "1234"},
        "priorityClassName": "1e3",
        "image": {"repository": "sharder", "digest": f"sha256:{'0a' * 32}"},
    },
    "everything about pods": {
        "image": {"repository": "example.com/sharder", "tag": "1", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "nameOverride": "name",
        "fullnameOverride": "full-name",
        "serviceAccount": {"name": "somebody", "annotations": {"a": "b"}},
        "resources": {
            "requests": {"cpu": 1, "memory": "1Gi"},
            "limits": {"cpu": "2", "memory": "2Gi"},
        },
        "terminationGracePeriodSeconds": 60,
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "nodeSelector": {"e": "f"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "topologySpreadConstraints": [],
        "priorityClassName": "system-cluster-critical",
    },
    "a configuration of the reference": {
        "config": {
            "clientConnection": {"qps": 100.5, "burst": 150, "contentType": "application/json"},
            "leaderElection": {"leaderElect": True, "leaseDuration": "15s"},
            "debugging": {"enableProfiling": False},
            "controller": {"sharder": {"syncPeriod": "1h30m", "concurrentMoves": 1}},
            "webhook": {
                "config": {
                    "namespaceSelector": {
                        "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]
                    }
                }
            },
            "gracefulShutDown": "-1s",
        }
    },
}

NEEDS_CERT_MANAGER: Final = frozenset({"cert-manager", "an own ca of cert-manager"})
"""The sets that render objects of cert-manager, which a server takes if it has their CRDs."""
