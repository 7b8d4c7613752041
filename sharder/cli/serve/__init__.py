"""The service: start it, run it, shut it down."""
