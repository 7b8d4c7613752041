"""What a plan does with an object."""

from enum import StrEnum


class Action(StrEnum):
    """What happens to an object."""

    KEEP = "keep"
    """It stays where it is."""
    ASSIGN = "assign"
    """It is assigned at once: no shard works on it."""
    DRAIN = "drain"
    """It is or will be draining, and moves once its shard has released it."""
    RELABEL = "relabel"
    """A controlled object: it moves after its controller."""
    NONE = "none"
    """It has no shard and gets none: it has no controller, or no shard can have it."""
