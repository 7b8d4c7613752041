"""What an answer looks like."""

import json

from sharder.core.admission.answers import Decision
from webhook.messages import MAX_WARNING_CHARACTERS
from webhook.review import encode


def test_a_warning_fits_into_a_header() -> None:
    decision = Decision(outcome="x", warning="a\r\nSet-Cookie: z\x00" + "b" * 1_000)

    [warning] = json.loads(encode("uid-1", decision))["response"]["warnings"]

    assert warning.startswith("a??Set-Cookie: z?b")
    assert len(warning) == MAX_WARNING_CHARACTERS
