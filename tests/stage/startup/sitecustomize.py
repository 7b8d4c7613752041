"""Put a deliberate bug into a process; Python imports this module if PYTHONPATH has its folder."""

from tests.stage.mutants import apply_named

apply_named()
