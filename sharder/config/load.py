"""Merge file, environment and flags into `Settings`, and report all problems at once.

All sources set values by the path of a field; the later source wins.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

import msgspec

from sharder.config.checks import problems_of
from sharder.config.fields import Decoder, Path, Text, fields
from sharder.config.settings import Settings
from sharder.core.errors import ConfigError
from sharder.core.names import CONFIG_API_VERSION

CONFIG_KIND: Final = "SharderConfig"
PREFIX: Final = "SHARDER_"

_TYPE: Final = {"apiVersion": CONFIG_API_VERSION, "kind": CONFIG_KIND}
# Variables that the kubelet sets in pods if their namespace has a Service named `sharder`:
# SHARDER_SERVICE_HOST, SHARDER_PORT_443_TCP_ADDR and so on (kubernetes.io, Service, "Environment
# variables").
_SERVICE_LINK: Final = re.compile(
    r"SHARDER_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)"
)


class Loaded(NamedTuple):
    """The settings, and what their sources have beside."""

    settings: Settings
    unknown: tuple[str, ...]
    """One sentence for each unknown field or variable."""


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
        environment: All variables; only the names in `environment_names` are used.
        flags: Values by dotted path, such as `logging.level`.
        strict: Whether unknown fields are errors.

    Raises:
        ConfigError: the settings are invalid; the message names every problem.
    """
    decoder = Decoder()
    tree = _document(file, decoder.problems)
    unknown = _set_variables(tree, environment or {})
    for dotted, text in (flags or {}).items():
        if text:
            _set(tree, tuple(dotted.split(".")), Text(dotted, text))
    settings = decoder.group(Settings, tree)
    unknown = [*decoder.unknown, *unknown]
    problems = [*decoder.problems, *(unknown if strict else ()), *problems_of(settings)]
    if problems:
        raise ConfigError("; ".join(problems))
    return Loaded(settings, tuple(unknown))


@cache
def environment_names() -> Mapping[str, Path]:
    """Return the path of the field that each variable sets.

    For example, `SHARDER_CONTROLLER_SHARDER_SYNC_PERIOD` sets `controller.sharder.syncPeriod`.
    """
    return {PREFIX + "_".join(map(_upper, path)): path for path in fields()}


def _document(data: bytes, problems: list[str]) -> dict[object, object]:
    """Return what a file says."""
    try:
        document = msgspec.yaml.decode(data)
    except msgspec.DecodeError as error:
        problems.append(f"the file is not YAML: {' '.join(str(error).split())}")
        return {}
    if not isinstance(document, dict):
        problems += ["the file is not a mapping"] * (document is not None)
        return {}
    for name, expected in _TYPE.items():
        found = document.pop(name, None)
        if found != expected:
            problems.append(f"{name}: must be {expected}, but is {found!r}")
    return document


def _set_variables(tree: dict[object, object], environment: Mapping[str, str]) -> list[str]:
    """Set what variables say, and return one sentence for each unknown one."""
    known, unknown = environment_names(), list[str]()
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX) or text.startswith(("tcp://", "udp://", "sctp://")):
            continue
        if name in known and text:
            _set(tree, known[name], Text(name, text))
        elif name not in known and not _SERVICE_LINK.fullmatch(name):
            unknown.append(f"{name}: unknown variable")
    return unknown


def _set(tree: dict[object, object], path: Path, text: Text) -> None:
    """Set a field, unless the file has something else in the place of its group."""
    first, *rest = path
    if not rest:
        tree[first] = text
        return
    group = tree[first] = tree.get(first) or {}
    if isinstance(group, dict):
        _set(group, tuple(rest), text)


def _upper(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).upper()
