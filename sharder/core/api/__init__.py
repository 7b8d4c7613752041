"""Kubernetes objects as values, as they are on the wire, with defaults."""
