"""The rows of the benchmark, each in the module of what it measures."""
