"""Passes over all objects of a ring."""
