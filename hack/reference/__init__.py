"""docs/reference.md and docs/configuration.md, written from the schemas in the chart."""
