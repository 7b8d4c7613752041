"""The part of CEL that the product's match conditions and policies use, compiled to closures.

The contract tests let a real API server and this module judge the same requests.
"""

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

Scope: TypeAlias = Mapping[str, Any]
Expression: TypeAlias = Callable[[Scope], Any]

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<number>\d+)"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<sign>\.\?|\[\?|&&|\|\||==|!=|<=|>=|[-+!<>?:.,()\[\]{}]))"""
)
_COMPARE: Final = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "in": lambda item, of: item in of,
}


class CelError(Exception):
    """An expression is invalid, or cannot be evaluated: a field is missing."""


class Optional:
    """A value that might be missing."""

    __slots__ = ("has", "value")

    def __init__(self, value: object = None, *, has: bool = False) -> None:
        self.value = value
        self.has = has


@lru_cache(maxsize=1024)
def compiled(text: str) -> Expression:
    """Return the expression as a function of its variables."""
    parser = _Parser(text)
    expression = parser.ternary()
    parser.expect("")
    return expression


def evaluate(text: str, scope: Scope) -> Any:
    """Return the value of an expression.

    Raises:
        CelError: it cannot be evaluated.
    """
    return compiled(text)(scope)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list[tuple[str, str]]()
        end = 0
        while end < len(text.rstrip()):
            match = _TOKEN.match(text, end)
            if match is None:
                raise CelError(f"cannot read {text[end:]!r}")
            self._tokens.append((str(match.lastgroup), match[match.lastgroup or 0]))
            end = match.end()
        self._at = 0

    def ternary(self) -> Expression:
        condition = self._or()
        if not self._take("?"):
            return condition
        yes = self.ternary()
        self.expect(":")
        no = self.ternary()
        return lambda scope: yes(scope) if condition(scope) else no(scope)

    def _or(self) -> Expression:
        parts = self._chain("||", self._and)
        return parts[0] if len(parts) == 1 else lambda scope: any(each(scope) for each in parts)

    def _and(self) -> Expression:
        parts = self._chain("&&", self._comparison)
        return parts[0] if len(parts) == 1 else lambda scope: all(each(scope) for each in parts)

    def _chain(self, sign: str, part: Callable[[], Expression]) -> list[Expression]:
        parts = [part()]
        while self._take(sign):
            parts.append(part())
        return parts

    def _comparison(self) -> Expression:
        left = self._sum()
        while (sign := self._peek()[1]) in _COMPARE:
            self._at += 1
            left = _compared(_COMPARE[sign], left, self._sum())
        return left

    def _sum(self) -> Expression:
        parts = self._chain("+", self._unary)
        if len(parts) == 1:
            return parts[0]
        return lambda scope: _added([each(scope) for each in parts])

    def _unary(self) -> Expression:
        if self._take("!"):
            inner = self._unary()
            return lambda scope: not inner(scope)
        return self._member(self._primary())

    def _primary(self) -> Expression:
        kind, text = self._next()
        if kind == "string":
            value = _unquoted(text)
            return lambda _: value
        if kind == "number":
            number = int(text)
            return lambda _: number
        return self._named(text) if kind == "name" else self._enclosed(text)

    def _enclosed(self, sign: str) -> Expression:
        match sign:
            case "(":
                inner = self.ternary()
                self.expect(")")
                return inner
            case "[":
                items = self._items("]")
                return lambda scope: [each(scope) for each in items]
            case "{":
                return self._map()
            case _:
                raise CelError(f"unexpected {sign!r}")

    def _named(self, text: str) -> Expression:
        if text in {"true", "false", "null"}:
            constant = {"true": True, "false": False, "null": None}[text]
            return lambda _: constant
        if text == "has":
            self.expect("(")
            inner = self._sum()
            self.expect(")")
            return _has(inner)
        return lambda scope: scope[text]

    def _map(self) -> Expression:
        pairs = list[tuple[Expression, Expression]]()
        while not self._take("}"):
            key = self.ternary()
            self.expect(":")
            pairs.append((key, self.ternary()))
            self._take(",")
        return lambda scope: {key(scope): value(scope) for key, value in pairs}

    def _member(self, of: Expression) -> Expression:
        while True:
            sign = self._peek()[1]
            if sign in {".", ".?"}:
                self._at += 1
                name = self._next()[1]
                if sign == "." and self._take("("):
                    of = self._call(of, name)
                else:
                    of = _field(of, name, optional=sign == ".?")
            elif sign in {"[", "[?"}:
                self._at += 1
                key = self.ternary()
                self.expect("]")
                of = _index(of, key, optional=sign == "[?")
            else:
                return of

    def _call(self, of: Expression, name: str) -> Expression:
        if name in {"exists", "all"}:
            variable = self._next()[1]
            self.expect(",")
            body = self.ternary()
            self.expect(")")
            decide = any if name == "exists" else all
            return lambda scope: decide(body({**scope, variable: each}) for each in of(scope))
        arguments = self._items(")")
        return lambda scope: _called(of(scope), name, [each(scope) for each in arguments])

    def _items(self, end: str) -> list[Expression]:
        items = list[Expression]()
        while not self._take(end):
            items.append(self.ternary())
            self._take(",")
        return items

    def expect(self, text: str) -> None:
        kind, found = self._next()
        if found != text:
            raise CelError(f"expected {text!r}, found {found!r} ({kind})")

    def _take(self, text: str) -> bool:
        is_next = self._peek()[1] == text
        self._at += is_next
        return is_next

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self._at += 1
        return token


def _field(of: Expression, name: str, *, optional: bool) -> Expression:
    def value(scope: Scope) -> object:
        return _get(of(scope), name, optional=optional)

    return value


def _index(of: Expression, key: Expression, *, optional: bool) -> Expression:
    def value(scope: Scope) -> object:
        return _get(of(scope), key(scope), optional=optional)

    return value


def _get(of: Any, key: Any, *, optional: bool) -> object:
    is_optional = optional or isinstance(of, Optional)
    inner: Any = of.value if isinstance(of, Optional) else of
    has = False
    found: object = None
    is_item = isinstance(inner, Sequence) and isinstance(key, int) and key < len(inner)
    if is_item or (isinstance(inner, Mapping) and key in inner):
        has, found = True, inner[key]
    if is_optional:
        return Optional(found, has=has)
    if not has:
        raise CelError(f"no such key: {key}")
    return found


def _has(of: Expression) -> Expression:
    def value(scope: Scope) -> bool:
        try:
            of(scope)
        except CelError:
            return False
        return True

    return value


def _compared(compare: Callable[[Any, Any], Any], one: Expression, two: Expression) -> Expression:
    return lambda scope: compare(one(scope), two(scope))


def _added(values: Sequence[Any]) -> Any:
    total = values[0]
    for each in values[1:]:
        total = total + each
    return total


def _called(of: Any, name: str, arguments: Sequence[Any]) -> Any:
    match name:
        case "orValue":
            return of.value if of.has else arguments[0]
        case "hasValue":
            return of.has
        case "startsWith":
            return of.startswith(arguments[0])
        case "size":
            return len(of)
        case _:
            raise CelError(f"no such function: {name}")


def _unquoted(text: str) -> str:
    if text[0] == '"':
        return str(json.loads(text))
    return text[1:-1].replace("\\'", "'").replace("\\\\", "\\")
