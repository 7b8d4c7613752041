"""Objects that wait for a step, and how long each has waited."""
