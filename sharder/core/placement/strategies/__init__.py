"""The strategies, one per file; `registry` lists them."""
