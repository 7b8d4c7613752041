"""The cluster: implements the ports of `sharder.ports` with the Kubernetes client."""
