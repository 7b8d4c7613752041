"""What is wrong with a ControllerRing, and what is to be thought of before it is written.

A refusal means that the ring cannot work as it is.  The webhook refuses such a ring, and the ring
controller calls one that slipped in not Ready, by the same function.  Everything else is a
warning: it is told once to who writes the ring (docs/protocol.md, "Refused and warned").
"""

from sharder.core.validation.refusal import Fault, Refusal
from sharder.core.validation.ring import MAX_REFUSALS, MAX_RESOURCES, refusals
from sharder.core.validation.warnings import Facts, warnings

__all__ = ["MAX_REFUSALS", "MAX_RESOURCES", "Facts", "Fault", "Refusal", "refusals", "warnings"]
