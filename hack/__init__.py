"""Tools for developing the sharder: control plane, demo, benchmarks and checks."""
