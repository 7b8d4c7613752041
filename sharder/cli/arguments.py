"""The arguments of commands, as the signatures of their functions declare them.

A parameter is an argument of the command, or an option if it is keyword-only.  Its type says how
the word is read and how many there are; `Annotated` adds flags, the metavar, and last the help:

    def plan(ring: Ring | None, *, add: Annotated[Sequence[str], "N|NAME", "Plan with ..."] = ())

An option without a default is required, unless it can be None.
"""

import inspect
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin, get_type_hints

from sharder.core.errors import ConfigError
from sharder.core.names import GroupResource, ObjectRef, is_subdomain, parse_resource
from sharder.core.texts import parse_duration

Ring: TypeAlias = Annotated[str, "RING", "Name of a ControllerRing."]
Rings: TypeAlias = Annotated[Sequence[str], "RING", "Name of a ControllerRing."]
Shard: TypeAlias = Annotated[str, "SHARD", "Name of a shard, as in sharder shards."]
Shards: TypeAlias = Annotated[Sequence[str], "SHARD", "Name of a shard, as in sharder shards."]
Objects: TypeAlias = Annotated[
    Sequence[str],
    "OBJECT",
    "RESOURCE NAME or RESOURCE/NAME, as for kubectl; NAME can be NAMESPACE/NAME.",
]
Namespace: TypeAlias = Annotated[str | None, "-n", "NAME", "Namespace of the objects."]
SharderNamespace: TypeAlias = Annotated[
    str, "-n", "NAME", "Namespace of the sharder, or of the Secret."
]
SecretName: TypeAlias = Annotated[str, "NAME", "Secret of the certificates."]
DryRun: TypeAlias = Annotated[bool, "Show what would be written, without writing."]


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a command, or an option if its names are flags."""

    names: tuple[str, ...]
    options: Mapping[str, Any]
    """Those of argparse's `add_argument`."""


def arguments_of(run: Callable[..., object]) -> Iterator[Argument]:
    """Yield the arguments that the annotated parameters of a function or a class declare."""
    hints = get_type_hints(run, include_extras=True)
    for name, parameter in inspect.signature(run).parameters.items():
        if any(get_origin(each) is Annotated for each in (hints[name], *get_args(hints[name]))):
            yield _argument(parameter, hints[name])


def _argument(parameter: inspect.Parameter, hint: Any) -> Argument:  # noqa: ANN401 - any type
    options, words = dict[str, Any](), list[str]()
    is_option, default = parameter.kind is parameter.KEYWORD_ONLY, parameter.default
    is_required = default is parameter.empty
    while args := get_args(hint):
        origin, hint = get_origin(hint), args[0]
        if origin is Annotated:
            words = [*args[1:], *words]
        elif origin is Literal:
            options["choices"], hint = args, str
        elif origin is Sequence:
            options |= (
                {"action": "append"} if is_option else {"nargs": "+" if is_required else "*"}
            )
        else:  # or None
            is_required = False
            options |= {} if is_option else {"nargs": "?"}
    *metavar, options["help"] = [word for word in words if not word.startswith("-")]
    if hint is bool:
        return Argument(_names(parameter, words), {**options, "action": "store_true"})
    options |= {"metavar": metavar[0]} if metavar else {}
    options |= {"type": _READ[hint]} if hint in _READ else {}
    if default is not parameter.empty:
        options["default"] = [] if default == () else default
    if not is_option:
        return Argument((parameter.name,), options)
    return Argument(_names(parameter, words), {**options, "required": is_required})


def _names(parameter: inspect.Parameter, words: Sequence[str]) -> tuple[str, ...]:
    flags = [word for word in words if word.startswith("-")]
    return (*flags, f"--{parameter.name.replace('_', '-')}")


def _parser(read: Callable[[str], object]) -> Callable[[str], object]:
    """Return a type of argparse; `read` raises an error that says what is wrong with a word."""

    def parse(word: str) -> object:
        try:
            return read(word)
        except (ConfigError, ValueError) as error:
            raise ArgumentTypeError(str(error)) from error

    return parse


def _duration(text: str) -> timedelta:
    found = parse_duration(text)
    if found < timedelta():
        raise ValueError(f"{text} is negative")
    return found


def _pair(word: str) -> ObjectRef:
    pair = word.split("/")
    if len(pair) != 2 or not all(map(is_subdomain, pair)):
        raise ConfigError(f"{word} is not NAMESPACE/NAME")
    return ObjectRef(*pair)


_READ: Final[Mapping[object, Callable[[str], object]]] = {
    timedelta: _parser(_duration),
    ObjectRef: _parser(_pair),
    GroupResource: _parser(parse_resource),
    Path: Path,
    int: int,
}
"""How the words of a type are read; any other type is text."""
