"""The strategies, one a file; `registry` lists them."""
