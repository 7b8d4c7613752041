"""Import the Kubernetes client without the modules that a command does not use.

`import kubernetes` imports the synchronous and the asynchronous client with all helpers.  A
command only needs the configuration, and starts in half the time without the rest.  Only the
program `sharder` does this: in other programs, other code can need the whole client.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import Final

_PACKAGES: Final = ("kubernetes", "kubernetes.aio", "kubernetes.aio.utils")


def skip_unused() -> None:
    """Register the packages of the client without running them; their modules can be imported.

    Does nothing if the client has been imported already.
    """
    if "kubernetes" in sys.modules:
        return
    for name in _PACKAGES:
        _register(name)


def _register(name: str) -> None:
    """Register a package without running it; its modules are imported on first use."""
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
