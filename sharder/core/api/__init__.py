"""Kubernetes objects as values: what they look like on the wire, with defaults."""
