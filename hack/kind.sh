#!/usr/bin/env bash
# Make a cluster with kind or k3d, and run on it the sharder and an example with three replicas.
# Safe to repeat.  The kubeconfig's current context is not used: all writes go to the new cluster.
set -euo pipefail
cd "$(dirname "$0")/.."

need() { command -v "$1" >/dev/null || { echo "error: no $1: see $2" >&2; exit 1; }; }

need docker https://docs.docker.com/engine/install
need kubectl https://kubernetes.io/docs/tasks/tools
need helm https://helm.sh/docs/intro/install
tool=kind
if ! command -v kind >/dev/null && command -v k3d >/dev/null; then tool=k3d; fi
need "$tool" "https://kind.sigs.k8s.io/docs/user/quick-start or https://k3d.io, which are one file each"

example=examples/checksum-controller
image=$(sed -n 's/^ *image: //p' "$example/deploy/deployment.yaml")
context=$tool-sharder
on_cluster() { kubectl --context "$context" "$@"; }

docker build --tag "$image" .
if [ "$tool" = kind ]; then
    kind get clusters | grep -qx sharder || kind create cluster --name sharder
    kind load docker-image "$image" --name sharder
else
    k3d cluster get sharder >/dev/null 2>&1 || k3d cluster create sharder
    k3d image import "$image" --cluster sharder
fi

helm upgrade --install sharder charts/sharder --kube-context "$context" \
    --namespace sharding-system --create-namespace --values "$example/sharder-values.yaml" \
    --set "image.repository=${image%:*}"
on_cluster wait --for=condition=Established --timeout=60s \
    crd/controllerrings.sharding.timebertt.dev
on_cluster rollout status --namespace sharding-system deployment/sharder --timeout=180s
on_cluster apply --kustomize "$example"
on_cluster label namespace default checksum.example.com/enabled=true --overwrite
on_cluster rollout status --namespace checksum-controller deployment/checksum-controller --timeout=180s
for number in $(seq 12); do
    on_cluster create secret generic "demo-$number" --from-literal=password="$number" \
        --dry-run=client --output=yaml
    echo ---
done | on_cluster apply --namespace default --filename -

cat <<END

See which replica owns which Secret, kill a replica, and watch its Secrets move:

  kubectl --context $context get secrets,configmaps -n default -L shard.alpha.sharding.timebertt.dev/checksum
  kubectl --context $context delete -n checksum-controller --force \$(kubectl --context $context get pods -n checksum-controller -o name | head -1)
  kubectl --context $context get secrets -n default -L shard.alpha.sharding.timebertt.dev/checksum --watch

Remove it all: $tool $([ "$tool" = kind ] && echo "delete cluster --name" || echo "cluster delete") sharder
END
