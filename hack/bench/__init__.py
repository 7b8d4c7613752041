"""Measure the sharder: `make bench` runs every row, `python -m hack.bench ROW…` some."""
