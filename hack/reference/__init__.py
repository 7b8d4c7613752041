"""What is written from schemas and code: references, the chart's README, and its dashboard."""
