"""Reduce JSON of any size and depth to the parts that a decoder reads.

A decoder needs its whole input, blocks the event loop, creates an object for each label, and
recurses.  A sieve takes pieces, reads each byte once without recursion, and keeps little, so that
a large or deep review is handled like any other.
"""

import re
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from sharder.core.errors import InvalidObject
from sharder.core.names import API_GROUP
from webhook.shape import Entries, Items, Members, Shape

MAX_TEXT_BYTES: Final = 4 * 1024
"""Longer texts are replaced by a digest: equal texts stay equal, and relevant texts are
shorter."""

MAX_COLLECTION_BYTES: Final = 128 * 1024
"""Limit of a map or list.  Later entries are dropped, unless their key has our domain.

A decoder uses about 150 bytes for a label of 8 bytes.
"""

MAX_OBJECT_BYTES: Final = 512 * 1024
"""Limit of an object, beyond which the digests of its other members are dropped: more than its
three collections can have."""

MAX_BYTES: Final = 2 * 1024 * 1024
"""Limit of all that is kept: more than the three collections of two objects can have."""

MAX_SCALAR_BYTES: Final = 1024
"""Limit of a number or literal; Kubernetes writes at most 25 bytes."""


@dataclass(slots=True)
class _Frame:
    """An object or list that is being read and kept."""

    shape: Members | Entries | Items
    kept: int = 0
    """Bytes of its members or items."""
    key: bytes = b""
    """The quoted key of the member whose value comes next; empty before the key."""

    @property
    def closer(self) -> int:
        return _LIST_END if isinstance(self.shape, Items) else _OBJECT_END


@dataclass(slots=True)
class _Text:
    """A text that is being read; a long text has a digest instead of `kept`."""

    kept: bytearray = field(default_factory=bytearray)
    digest: blake2b | None = None

    def add(self, part: bytes) -> None:
        if self.digest is not None:
            self.digest.update(part)
            return
        self.kept += part
        if len(self.kept) > MAX_TEXT_BYTES:
            self.digest = blake2b(self.kept, digest_size=16)
            self.kept.clear()

    def quoted(self) -> bytes:
        content = self.digest.hexdigest().encode() if self.digest else bytes(self.kept)
        return b'"%s"' % content


_QUOTE, _BACKSLASH = b'"\\'
_OBJECT, _OBJECT_END, _LIST, _LIST_END = b"{}[]"
_BLANK: Final = b" \t\r\n,:"
_STATUS: Final = b'"status"'
_OURS: Final = API_GROUP.encode()

_PLAIN = re.compile(rb'[^"\[\]{}]*+')
_INSIDE = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SKIPPED = re.compile(
    rb'(?:[^"\[\]{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+(?:([\[{]++)|([\]}]++))?+', re.DOTALL
)


class Sieve:
    """Reads a JSON object piece by piece."""

    def __init__(self, shape: Shape) -> None:
        """Keep what belongs to `shape`, the shape of the whole object."""
        self._shape = shape
        self._frames: list[_Frame] = []
        self._kept = bytearray()
        self._text: _Text | None = None
        """The text being read, if it is kept."""
        self._in_text = False
        self._is_escaped = False
        """The next byte of the text follows a backslash."""
        self._skipped = 0
        """The number of open brackets that are not kept."""
        self._digest: blake2b | None = None
        """The digest of what is skipped, if that is kept in its place."""
        self._scalar = b""
        """The beginning of a number or literal that the end of the last piece has cut."""

    @property
    def size(self) -> int:
        """The number of bytes that are kept."""
        return len(self._kept)

    def feed(self, piece: bytes) -> None:
        """Read one more piece, at a cost that depends only on its length.

        Raises:
            InvalidObject: the input is not a JSON object, or not one that Kubernetes writes.
        """
        piece, self._scalar = self._scalar + piece, b""
        position = 0
        while position < len(piece):
            if self._in_text:
                position = self._read_text(piece, position)
            elif self._skipped:
                position = self._skip(piece, position)
            else:
                position = self._read(piece, position)

    def finish(self) -> bytes:
        """Return what was kept; not JSON if the input was cut off, or went on after its end."""
        return bytes(self._kept) + self._scalar

    def _read(self, piece: bytes, position: int) -> int:
        """Read up to and including the next quote or bracket; return the position after it."""
        found = _PLAIN.match(piece, position)
        end = found.end() if found else position
        scalar = piece[position:end].strip(_BLANK)
        if end == len(piece):
            self._scalar = scalar
            if len(scalar) > MAX_SCALAR_BYTES:
                raise InvalidObject("a number is too long")
            return end
        if scalar:
            self._value(scalar)
        if piece[end] == _QUOTE:
            self._in_text = True
            self._text = _Text() if self._is_key_next or self._is_wanted else None
        elif piece[end] in b"{[":
            self._open(piece[end])
        else:
            self._close(piece[end])
        return end + 1

    def _read_text(self, piece: bytes, position: int) -> int:
        """Read to the end of the text or of the piece; return the position after it."""
        found = _INSIDE.match(piece, position + self._is_escaped)
        end = found.end() if found else position
        is_over = end < len(piece) and piece[end] == _QUOTE
        self._is_escaped = not is_over and end < len(piece)
        if self._text is not None:
            self._text.add(piece[position : end + self._is_escaped])
        elif self._digest is not None:
            self._digest.update(piece[position : end + 1])
        if is_over:
            self._end_text()
        return end + 1

    def _end_text(self) -> None:
        self._in_text, text = False, self._text
        if self._skipped:
            return
        if self._is_key_next:
            self._frames[-1].key = text.quoted() if text else b""
        else:
            self._value(text.quoted() if text else b"")

    def _skip(self, piece: bytes, position: int) -> int:
        """Skip to the end of what is not kept, to a text that the piece cuts, or to its end."""
        depth, start = self._skipped, position
        while depth > 0 and (found := _SKIPPED.match(piece, position)):
            position = found.end()
            opened, closed = found.groups()
            if opened:
                depth += len(opened)
            elif closed:
                depth -= len(closed)
            else:
                if position < len(piece):
                    self._in_text, self._text = True, None
                    position += 1
                break
        self._skipped = max(0, depth)
        # Surplus closing brackets belong to what is kept.
        position += min(0, depth)
        if self._digest is not None:
            self._digest.update(piece[start:position])
            if not self._skipped:
                value, self._digest = b'"%s"' % self._digest.hexdigest().encode(), None
                self._value(value)
        return position

    @property
    def _is_key_next(self) -> bool:
        if not self._frames:
            return False
        frame = self._frames[-1]
        return not isinstance(frame.shape, Items) and not frame.key

    @property
    def _is_wanted(self) -> bool:
        """Whether the value that comes next is kept."""
        if not self._frames:
            return True
        frame = self._frames[-1]
        if isinstance(frame.shape, Members):
            return frame.key in frame.shape.of or self._is_compared
        return frame.kept < MAX_COLLECTION_BYTES or _OURS in frame.key

    @property
    def _is_compared(self) -> bool:
        """Whether a digest of the value that comes next is kept."""
        frame = self._frames[-1] if self._frames else None
        if frame is None or not isinstance(frame.shape, Members) or not frame.shape.compared:
            return False
        is_other = frame.key not in frame.shape.of and frame.key not in {b"", _STATUS}
        return is_other and frame.kept < MAX_OBJECT_BYTES

    def _value(self, value: bytes) -> None:
        """Keep a value, or its opening bracket, if it is wanted."""
        if self._is_key_next:
            raise InvalidObject("a key is not a string")
        if self._is_wanted:
            self._keep(value)
        if self._frames:
            self._frames[-1].key = b""

    def _keep(self, value: bytes) -> None:
        before = len(self._kept)
        if self._frames:
            frame = self._frames[-1]
            if frame.kept:
                self._kept += b","
            if frame.key:
                self._kept += frame.key + b":"
            self._kept += value
            frame.kept += len(self._kept) - before
        else:
            self._kept += value
        if len(self._kept) > MAX_BYTES:
            raise InvalidObject("its metadata is too large")

    def _open(self, bracket: int) -> None:
        shape = self._shape_next if self._is_wanted else None
        if shape is not None and isinstance(shape, Items) == (bracket == _LIST):
            self._value(bytes([bracket]))
            self._frames.append(_Frame(shape))
        elif self._is_compared:
            self._digest = blake2b(bytes([bracket]), digest_size=16)
            self._skipped = 1
        elif self._is_wanted or self._is_key_next:
            self._value(b"[]" if bracket == _LIST else b"{}")  # as wrong as what it replaces
            self._skipped = 1
        else:
            self._leave_out()

    def _leave_out(self) -> None:
        """Skip a value, or the rest of a list that is full."""
        frame = self._frames[-1]
        frame.key = b""
        self._skipped = 1
        if isinstance(frame.shape, Items):
            self._end(_LIST_END)
            self._skipped = 2

    @property
    def _shape_next(self) -> Shape:
        if not self._frames:
            return None if self._kept else self._shape
        match self._frames[-1]:
            case _Frame(shape=Members(of=of), key=key):
                return of.get(key)
            case _Frame(shape=Items(of=item)):
                return item
            case _:
                return None

    def _close(self, bracket: int) -> None:
        if not self._frames or self._frames[-1].closer != bracket:
            raise InvalidObject("a closing bracket has no opening one")
        self._end(bracket)

    def _end(self, bracket: int) -> None:
        closed = self._frames.pop()
        self._kept.append(bracket)
        if self._frames:
            self._frames[-1].kept += closed.kept + 1
