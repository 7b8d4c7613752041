"""Merge file, environment and flags into `Settings`, and report all problems at once.

All sources set values by the path of a field; the later source wins.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import msgspec

from sharder.config.checks import problems_of
from sharder.config.fields import MEANINGLESS, Path, decode, fields, groups, resembling
from sharder.config.settings import Settings
from sharder.core.errors import ConfigError
from sharder.core.names import CONFIG_API_VERSION

CONFIG_KIND: Final = "SharderConfig"
PREFIX: Final = "SHARDER_"

_TYPE: Final = {"apiVersion": CONFIG_API_VERSION, "kind": CONFIG_KIND}
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
    sources = _Sources()
    sources.set("KUBECONFIG", _KUBECONFIG, (environment or {}).get("KUBECONFIG"), is_text=True)
    sources.set_file(file)
    sources.set_variables(environment or {})
    for dotted, text in (flags or {}).items():
        sources.set(dotted, tuple(dotted.split(".")), text, is_text=True)
    values, unknown = sources.values, tuple(sources.unknown)
    settings = msgspec.convert(_nest(values), Settings)
    problems = [*sources.problems, *(unknown if strict else ()), *_conflicts(values)]
    problems += problems_of(settings)
    if problems:
        raise ConfigError("; ".join(problems))
    meaningless = tuple(".".join(path) for path in MEANINGLESS if path in values)
    return Loaded(settings=settings, unknown=unknown, meaningless=meaningless)


@cache
def environment_names() -> Mapping[str, Path]:
    """Return the path of the field that each variable sets.

    For example, `SHARDER_CONTROLLER_SHARDER_SYNC_PERIOD` sets `controller.sharder.syncPeriod`.
    """
    return {PREFIX + "_".join(map(_upper, path)): path for path in fields()}


@dataclass(frozen=True, slots=True)
class _Sources:
    """What the sources set, and what is wrong with them."""

    values: dict[Path, object] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def set(self, name: str, path: Path, value: object, *, is_text: bool = False) -> None:
        """Decode one field; null and an empty text count as absent, as in the reference."""
        if value is None or value == "":
            return
        try:
            self.values[path] = decode(path, value, is_text=is_text)
        except ValueError as error:
            self.problems.append(f"{name}: {error}")

    def set_file(self, data: bytes) -> None:
        """Set what a file says."""
        try:
            document = msgspec.yaml.decode(data)
        except msgspec.DecodeError as error:
            self.problems.append(f"the file is not YAML: {' '.join(str(error).split())}")
            return
        if isinstance(document, Mapping):
            for name, expected in _TYPE.items():
                if document.get(name) != expected:
                    found = document.get(name)
                    self.problems.append(f"{name}: must be {expected}, but is {found!r}")
            self._set_group({key: document[key] for key in document if key not in _TYPE}, ())
        elif document is not None:
            self.problems.append("the file is not a mapping")

    def set_variables(self, environment: Mapping[str, str]) -> None:
        """Set what variables say."""
        known = environment_names()
        for name, text in sorted(environment.items()):
            if not name.startswith(PREFIX) or text.startswith(("tcp://", "udp://", "sctp://")):
                continue
            if name in known:
                self.set(name, known[name], text, is_text=True)
            elif not _SERVICE_LINK.fullmatch(name):
                self.unknown.append(f"{name}: unknown variable")

    def _set_group(self, group: Mapping[object, object], prefix: Path) -> None:
        for key, value in group.items():
            path = (*prefix, str(key))
            dotted = ".".join(path)
            if path in fields():
                self.set(dotted, path, value)
            elif path not in groups():
                self.unknown.append(f"{dotted}: unknown field{resembling(dotted)}")
            elif isinstance(value, Mapping):
                self._set_group(value, path)
            elif value is not None:
                self.problems.append(f"{dotted}: must be a mapping, but is {value!r}")


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
