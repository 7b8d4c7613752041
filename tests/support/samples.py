"""What a scrape says."""

from prometheus_client.parser import text_string_to_metric_families


def total(scrape: str, name: str, /, **labels: str) -> float:
    """Return the sum of the samples of this name that have these labels, 0 if there are none.

    The parser gives each counter the end that OpenMetrics asks for, but not all of the API
    server's have it.
    """
    return sum(
        sample.value
        for family in text_string_to_metric_families(scrape)
        for sample in family.samples
        if sample.name in {name, f"{name}_total"} and labels.items() <= sample.labels.items()
    )
