"""Merge patches (RFC 7386), applied as the API server does."""

from collections.abc import Mapping

from sharder.core.api.meta import Json


def apply_merge_patch(document: Json, patch: Json) -> Json:
    """Return the document with `patch` merged into it; None removes."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(document) if isinstance(document, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), value)
    return merged
