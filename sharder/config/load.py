"""Merge file, environment and flags into `Settings`, and report all problems at once.

Each source becomes a layer, a flat mapping from the path of a field to its value; the later layer
wins.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import msgspec

from sharder.config.checks import problems_of
from sharder.config.fields import (
    ALIASES,
    MEANINGLESS,
    Path,
    decode,
    decode_text,
    fields,
    groups,
    resembling,
)
from sharder.config.settings import Settings
from sharder.core.errors import ConfigError
from sharder.core.names import CONFIG_API_VERSION

CONFIG_KIND: Final = "SharderConfig"
PREFIX: Final = "SHARDER_"

_TYPE: Final = {("apiVersion",): CONFIG_API_VERSION, ("kind",): CONFIG_KIND}
_KUBECONFIG: Final = ("clientConnection", "kubeconfig")
_CLIENT_CONFIG: Final = ("webhook", "config", "clientConfig")
# Variables that the kubelet sets in pods if their namespace has a Service named `sharder`:
# SHARDER_SERVICE_HOST, SHARDER_PORT_443_TCP_ADDR and so on (kubernetes.io, Service, "Environment
# variables").
_SERVICE_LINK: Final = re.compile(
    r"SHARDER_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The settings, and warnings about their sources."""

    settings: Settings
    unknown: tuple[str, ...]
    """One sentence for each unknown field or variable."""
    meaningless: tuple[str, ...]
    """Fields that are set but have no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    values: dict[Path, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def load(
    file: bytes = b"",
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, str] | None = None,
    *,
    strict: bool = False,
) -> Loaded:
    """Return the settings: the flags win over the environment, which wins over the file.

    Args:
        file: A SharderConfig in YAML or JSON; an empty file sets nothing.
        environment: All variables; only KUBECONFIG and the names in `environment_names` are used.
        flags: Values by dotted path, such as `logging.level`.
        strict: Whether unknown fields are errors.

    Raises:
        ConfigError: the settings are invalid; the message names every problem.
    """
    layers = (
        _decode_kubeconfig(environment or {}),
        _decode_file(file),
        _decode_environment(environment or {}),
        _decode_flags(flags or {}),
    )
    merged = {path: value for layer in layers for path, value in layer.values.items()}
    unknown = tuple(sentence for layer in layers for sentence in layer.unknown)
    settings = msgspec.convert(_nest(merged), Settings)
    problems = [problem for layer in layers for problem in layer.problems]
    problems += [*(unknown if strict else ()), *_conflicts(merged), *problems_of(settings)]
    if problems:
        raise ConfigError("; ".join(problems))
    meaningless = tuple(".".join(path) for path in MEANINGLESS if path in merged)
    return Loaded(settings=settings, unknown=unknown, meaningless=meaningless)


@cache
def environment_names() -> Mapping[str, Path]:
    """Return the path of the field that each variable sets.

    For example, `SHARDER_CONTROLLER_SHARDER_SYNC_PERIOD` sets `controller.sharder.syncPeriod`.
    """
    paths = {path: path for path in fields()} | dict(ALIASES)
    return {PREFIX + "_".join(map(_upper, name)): path for name, path in paths.items()}


def _decode_file(data: bytes) -> _Layer:
    layer = _Layer()
    try:
        document = msgspec.yaml.decode(data)
    except msgspec.DecodeError as error:
        layer.problems.append(f"the file is not YAML: {' '.join(str(error).split())}")
        return layer
    if document is None:
        return layer
    if not isinstance(document, Mapping):
        layer.problems.append("the file is not a mapping")
        return layer
    for (name,), expected in _TYPE.items():
        if document.get(name) != expected:
            layer.problems.append(f"{name}: must be {expected}, but is {document.get(name)!r}")
    _collect(document, (), layer)
    return layer


def _collect(group: Mapping[object, object], prefix: Path, layer: _Layer) -> None:
    for key, value in group.items():
        name = (*prefix, str(key))
        path, dotted = ALIASES.get(name, name), ".".join(name)
        if path in _TYPE or value is None:
            continue
        if path in fields():
            if path in layer.values:
                layer.problems.append(f"{dotted}: given twice, under two names")
            _store(layer, dotted, path, value)
        elif path not in groups():
            layer.unknown.append(f"{dotted}: unknown field{resembling(dotted)}")
        elif isinstance(value, Mapping):
            _collect(value, path, layer)
        else:
            layer.problems.append(f"{dotted}: must be a mapping, but is {value!r}")


def _decode_environment(environment: Mapping[str, str]) -> _Layer:
    layer, known = _Layer(), environment_names()
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX) or text.startswith(("tcp://", "udp://", "sctp://")):
            continue
        if name in known:
            _store(layer, name, known[name], text, is_text=True)
        elif not _SERVICE_LINK.fullmatch(name):
            layer.unknown.append(f"{name}: unknown variable")
    return layer


def _decode_kubeconfig(environment: Mapping[str, str]) -> _Layer:
    """Decode KUBECONFIG, the variable of all Kubernetes clients; any other source overrides it."""
    layer = _Layer()
    _store(layer, "KUBECONFIG", _KUBECONFIG, environment.get("KUBECONFIG", ""), is_text=True)
    return layer


def _decode_flags(flags: Mapping[str, str]) -> _Layer:
    layer = _Layer()
    for dotted, text in flags.items():
        _store(layer, dotted, tuple(dotted.split(".")), text, is_text=True)
    return layer


def _store(layer: _Layer, name: str, path: Path, value: object, *, is_text: bool = False) -> None:
    """Decode one field; an empty text counts as absent, as in the reference."""
    if value == "":
        return
    try:
        layer.values[path] = decode_text(path, str(value)) if is_text else decode(path, value)
    except ValueError as error:
        layer.problems.append(f"{name}: {error}")


def _conflicts(values: Mapping[Path, object]) -> list[str]:
    """Return problems that are visible only before defaults are filled in."""
    has_service = any(path[:4] == (*_CLIENT_CONFIG, "service") for path in values)
    if has_service and (*_CLIENT_CONFIG, "url") in values:
        return [f"{'.'.join(_CLIENT_CONFIG)}: set either service or url"]
    return []


def _nest(values: Mapping[Path, object]) -> dict[str, object]:
    tree: dict[str, object] = {}
    for name in {path[0] for path in values}:
        below = {path[1:]: value for path, value in values.items() if path[0] == name}
        tree[name] = below[()] if () in below else _nest(below)
    return tree


def _upper(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).upper()
