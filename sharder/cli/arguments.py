"""Arguments that commands share."""

from datetime import timedelta
from typing import Final

from sharder.cli.command import argument, switch
from sharder.core.names import SYSTEM_NAMESPACE
from sharder.core.texts import parse_duration

RING: Final = argument("ring", metavar="RING", help="Name of a ControllerRing.")
RINGS: Final = RING.but("rings", nargs="+", help="Names of ControllerRings.")
SHARD: Final = argument(
    "shard",
    metavar="SHARD",
    help="Name of a shard, as sharder shards lists it.",
)
SHARDS: Final = SHARD.but("shards", nargs="+", help="Names of shards.")
OBJECTS: Final = argument(
    "words",
    metavar="OBJECT",
    nargs="+",
    help="RESOURCE NAME or RESOURCE/NAME, as for kubectl; NAME can be NAMESPACE/NAME.",
)
NAMESPACE: Final = argument("-n", "--namespace", metavar="NAME", help="Namespace of the objects.")
SHARDER_NAMESPACE: Final = NAMESPACE.but(
    default=SYSTEM_NAMESPACE, help="Namespace of the sharder, or of the Secret."
)
SECRET: Final = argument(
    "--secret", metavar="NAME", default="sharder-certificates", help="Secret of the certificates."
)
DRY_RUN: Final = switch("--dry-run", help="Show what would be written, without writing.")


def duration(text: str) -> timedelta:
    """Return the duration, which is not negative."""
    found = parse_duration(text)
    if found < timedelta():
        raise ValueError(f"{text} is negative")
    return found
