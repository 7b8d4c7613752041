"""Validate a ControllerRing: refusals and warnings.

A refusal means that the ring cannot work.  The webhook rejects such a ring.  If it was stored
anyway, the ring controller uses the same function to report that it is not Ready.  Any other
problem is a warning in the answer to the write (docs/reference.md, "Refused and warned").
"""

from sharder.core.validation.ring import MAX_REFUSALS, MAX_RESOURCES, Fault, Refusal, refusals
from sharder.core.validation.warnings import warnings

__all__ = ["MAX_REFUSALS", "MAX_RESOURCES", "Fault", "Refusal", "refusals", "warnings"]
