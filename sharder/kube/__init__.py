"""The cluster: the ports of `sharder.ports` over the Kubernetes client's session."""
