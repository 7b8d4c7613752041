"""The control loops: read the world, decide by the core, carry it out through ports."""
