"""Write a new project: a controller on the SDK, with tests, manifests and a Dockerfile."""

import keyword
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from sharder.core.errors import ConfigError

SUFFIX: Final = ".tmpl"
"""The suffix of templates, so that no tool treats them as files of this project."""

MAX_NAME: Final = 40
"""Limit on the characters: names of pods and Leases add a suffix, and have up to 63."""

_NAME: Final = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_HYPHENATED, _MODULE = "my-controller", "my_controller"


def create(name: str, parent: Path) -> Path:
    """Write the project `name` into a new folder of `parent`, and return the folder.

    Raises:
        ConfigError: the name is not valid in Kubernetes and Python, or the folder cannot be
            written.
    """
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME or keyword.iskeyword(module):
        raise ConfigError(
            f"{name!r} is not a valid name: use up to {MAX_NAME} characters of a-z 0-9 -, "
            "beginning with a letter and not ending with a hyphen"
        )
    if module in {"sharder", "tests", "deploy", "webhook"}:
        raise ConfigError(f"{name!r} is the name of another package: choose another")
    folder = parent / name
    try:
        folder.mkdir()
        for path, text in templates():
            target = folder / path.replace(_MODULE, module)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text.replace(_HYPHENATED, name).replace(_MODULE, module))
    except OSError as error:
        raise ConfigError(f"cannot write {error.filename}: {error.strerror}") from error
    return folder


def templates() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each file of the project."""
    yield from _in(files("sharder.cli") / "project_template", "")


def _in(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            yield from _in(each, f"{prefix}{each.name}/")
        elif each.name.endswith(SUFFIX):
            yield prefix + each.name.removesuffix(SUFFIX), each.read_text(encoding="utf-8")
