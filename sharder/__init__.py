"""Scale Kubernetes controllers out: every replica works, each on objects of its own."""

__version__ = "0.2.0"
