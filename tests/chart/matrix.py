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
    "files": {
        "config": {
            "certificates": {"mode": "Files", "secretName": "mine"},
            "webhook": {"config": {"clientConfig": {"caBundle": "bWluZQ=="}}},
        }
    },
    "rings in namespaces, created": {
        "rings": [
            {
                "name": "made",
                "resources": [{"resource": "secrets"}],
                "namespaces": ["default", "kube-public"],
                "create": True,
                "spec": {"placement": {"strategy": "BoundedLoad"}, "shardNamespaces": ["default"]},
            },
            {"name": "web", "resources": [{"resource": "configmaps"}], "namespaces": ["default"]},
        ]
    },
    "fences": {
        "rings": [
            {
                "name": "web.fenced",
                "resources": [
                    {
                        "group": "apps",
                        "resource": "deployments",
                        "controlledResources": [
                            {"group": "apps", "resource": "replicasets"},
                            {"resource": "pods"},
                            {"resource": "configmaps"},
                        ],
                    },
                    {"group": "apps", "resource": "deploy-ments"},
                    {"resource": "secrets", "controlledResources": [{"resource": "configmaps"}]},
                    {"resource": "configmaps"},
                ],
                "serviceAccounts": [
                    {"namespace": "two", "name": "b"},
                    {"namespace": "one", "name": "a"},
                    {"namespace": "two", "name": "b"},
                ],
            },
            {
                "name": "alone",
                "resources": [{"group": "", "resource": "secrets"}],
                "serviceAccounts": [{"namespace": "one", "name": "a.b"}],
            },
            {"name": "open", "resources": [{"resource": "secrets"}], "serviceAccounts": []},
        ]
    },
    "monitoring": {
        "serviceMonitor": {
            "enabled": True,
            "labels": {"release": "prometheus"},
            "annotations": {"a": "b"},
            "interval": "30s",
            "scrapeTimeout": "10s",
            "serviceAccount": {"namespace": "monitoring", "name": "prometheus"},
            "relabelings": [{"targetLabel": "team", "replacement": "platform"}],
            "metricRelabelings": [{"regex": "uid", "action": "labeldrop"}],
        },
        "prometheusRule": {
            "enabled": True,
            "labels": {"release": "prometheus"},
            "annotations": {"a": "b"},
            "alertLabels": {"team": "platform"},
            "runbookUrl": "https://example.com/operate",
            "disabled": ["SharderAdmissionSlow"],
        },
        "grafanaDashboard": {"enabled": True, "annotations": {"grafana_folder": "Kubernetes"}},
    },
    "monitoring of the files of others": {
        "serviceMonitor": {
            "enabled": True,
            "tlsConfig": {"ca": {"configMap": {"name": "ca", "key": "ca.crt"}}},
        },
        "config": {
            "certificates": {"mode": "Files", "secretName": "mine"},
            "webhook": {"config": {"annotations": {"inject-ca": "true"}}},
        },
    },
    "labels and annotations everywhere": {
        "commonLabels": {"app.kubernetes.io/part-of": "platform"},
        "commonAnnotations": {"owner": "platform@example.com"},
        "networkPolicy": {"enabled": True},
        "serviceMonitor": {
            "enabled": True,
            "serviceAccount": {"namespace": "monitoring", "name": "prometheus"},
        },
        "prometheusRule": {"enabled": True},
        "grafanaDashboard": {"enabled": True},
        "rings": [
            {
                "name": "made",
                "resources": [{"resource": "secrets"}],
                "create": True,
                "steering": "Authorized",
            },
            {"name": "web", "resources": [{"resource": "secrets"}], "namespaces": ["default"]},
        ],
    },
    "the network of the hosts": {"hostNetwork": True},
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
        "serviceAccount": {"name": "own-account", "annotations": {"a": "b"}},
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
        "podSecurityContext": {"runAsUser": 1000, "fsGroup": 1000},
        "securityContext": {"runAsGroup": 1000},
        "extraArgs": ["--strict-config"],
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}],
        "extraVolumes": [{"name": "extra", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "extra", "mountPath": "/extra"}],
        "dnsPolicy": "Default",
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
