"""The promise of the whole protocol: whatever happens, no object ever has two workers.

And once the world calms down every object is where it belongs, and no shard has too many.  The
laws stand in `model.laws`, `model.view`, `model.ceilings` and `model.rest`; `test_model.py` shows
that they bite.
"""

from hypothesis import settings

from tests.property.model.counted import Counted
from tests.property.model.machine import Protocol

TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)

TestCounted = Counted.TestCase
TestCounted.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
