"""The entries of many objects in some 20 bytes each: most objects share a few entries."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, MutableMapping
from typing import Final, TypeAlias

from typing_extensions import override

from sharder.core.placement.counting.counts import Entry

_Bucket: TypeAlias = "tuple[array[int], list[Entry]]"
"""Identities in order, and their entries."""

_BUCKETS: Final = 256
"""So many that one insert moves 30 kB at most, up to a million objects."""


class Packed(MutableMapping[int, Entry]):
    """Entries by identity, each a place in a sorted array."""

    def __init__(self) -> None:
        self._buckets: dict[int, _Bucket] = {}

    @override
    def __getitem__(self, identity: int) -> Entry:
        (_, entries), at, is_known = self._find(identity)
        if not is_known:
            raise KeyError(identity)
        return entries[at]

    @override
    def __setitem__(self, identity: int, entry: Entry) -> None:
        (identities, entries), at, is_known = self._find(identity)
        if is_known:
            entries[at] = entry
        else:
            identities.insert(at, identity)
            entries.insert(at, entry)

    @override
    def __delitem__(self, identity: int) -> None:
        (identities, entries), at, is_known = self._find(identity)
        if not is_known:
            raise KeyError(identity)
        del identities[at], entries[at]

    @override
    def __iter__(self) -> Iterator[int]:
        for identities, _ in self._buckets.values():
            yield from identities

    @override
    def __len__(self) -> int:
        return sum(len(identities) for identities, _ in self._buckets.values())

    def _find(self, identity: int) -> tuple[_Bucket, int, bool]:
        """Return the bucket of an object, its place there, and whether it is in it."""
        bucket = self._buckets.get(identity % _BUCKETS)
        if bucket is None:
            bucket = self._buckets[identity % _BUCKETS] = array("Q"), []
        at = bisect_left(bucket[0], identity)
        return bucket, at, at < len(bucket[0]) and bucket[0][at] == identity
