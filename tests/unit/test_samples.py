"""What a scrape says."""

import pytest

from tests.support.samples import total

SCRAPE = """\
# TYPE fail_open_count counter
fail_open_count{name="a",type="admit"} 2
fail_open_count{name="b",type="admit"} 3
# TYPE request_total counter
request_total{name="a"} 5
# TYPE leading gauge
leading 1
# TYPE seconds histogram
seconds_bucket{le="1"} 4
seconds_bucket{le="+Inf"} 7
seconds_sum 9
seconds_count 7
"""


@pytest.mark.parametrize(
    ("name", "sum_"),
    [
        ("fail_open_count", 5),
        ("request_total", 5),
        ("leading", 1),
        ("seconds_count", 7),
        ("absent", 0),
    ],
)
def test_samples_of_a_name_are_added(name: str, sum_: float) -> None:
    assert total(SCRAPE, name) == sum_


@pytest.mark.parametrize(("labels", "sum_"), [({"name": "b"}, 3), ({"name": "c"}, 0)])
def test_only_samples_that_have_the_labels_count(labels: dict[str, str], sum_: float) -> None:
    assert total(SCRAPE, "fail_open_count", **labels) == sum_
