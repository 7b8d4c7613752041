"""The strategies, one per file; `sharder.core.placement.placer` lists them."""
