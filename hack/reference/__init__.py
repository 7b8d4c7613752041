"""Files that are generated from schemas and code: reference pages, chart README."""
