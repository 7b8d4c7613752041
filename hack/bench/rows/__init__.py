"""The rows of the benchmark, in one module for each measured part."""
