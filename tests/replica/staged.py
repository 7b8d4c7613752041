"""Tests that are played on the stage."""

import functools
import inspect
from collections.abc import Callable, Coroutine

from sharder.core.api.lease import format_time
from tests.replica.world import World
from tests.stage.network import wall_time


def now() -> str:
    """Return the present time as Leases tell it."""
    return format_time(wall_time())


def staged(test: Callable[..., Coroutine[object, None, None]]) -> Callable[..., None]:
    """Play a test on the stage: its first parameter is the world."""

    @functools.wraps(test)
    def run(**arguments: object) -> None:
        world = World()
        world.play(test(world, **arguments))
        errors = [f"{a.name}: {error}" for a in world.actors for error in a.process.errors]
        assert not [*errors, *world.broken, *world.loop.endless]

    signature = inspect.signature(test)
    rest = [each for name, each in signature.parameters.items() if name != "world"]
    run.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
    del run.__wrapped__
    return run
