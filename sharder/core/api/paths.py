"""The paths of the API: what a request names.

Source: apiserver, pkg/endpoints/request/requestinfo.go.
"""

from urllib.parse import unquote


def resource_path(path: str) -> tuple[str, str, list[str]] | None:
    """Return group, version and the parts after them; None if the path names no resource."""
    root, *parts = [unquote(part) for part in path.strip("/").split("/")]
    if root == "api" and len(parts) >= 2:
        return "", parts[0], parts[1:]
    if root == "apis" and len(parts) >= 3:
        return parts[0], parts[1], parts[2:]
    return None


def namespace_in(parts: list[str]) -> tuple[str, list[str]]:
    """Return the namespace, empty for none, and the parts after it: resource, name and more."""
    is_within = parts[0] == "namespaces" and len(parts) > 2
    if is_within and parts[2] not in {"status", "finalize"}:
        return parts[1], parts[2:]
    return "", parts
