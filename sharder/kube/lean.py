"""Import the Kubernetes client without what a command does not use.

`import kubernetes` runs both halves of the client with all their helpers; a command needs the
configuration alone, and starts in half the time without the rest.  Only the program `sharder` does
this: in other programs other code wants the whole client.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Final

_PACKAGES: Final = ("kubernetes", "kubernetes.aio", "kubernetes.aio.utils")


def skip_unused() -> None:
    """Leave out what the packages of the client import; modules inside them work as ever.

    A no-op if the client has been imported already.
    """
    if "kubernetes" in sys.modules:
        return
    for name in _PACKAGES:
        _enter(name)


def _enter(name: str) -> None:
    """Know the package without running it; its modules are imported when they are asked for."""
    spec = find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    package = module_from_spec(spec)

    def submodule(attribute: str) -> ModuleType:
        try:
            return import_module(f"{name}.{attribute}")
        except ModuleNotFoundError as error:
            raise AttributeError(f"{name} has no {attribute}") from error

    package.__getattr__ = submodule  # type: ignore[method-assign]
    sys.modules[name] = package
