"""The settings of the service: file, environment and flags, merged into one frozen value."""
