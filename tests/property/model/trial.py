"""Run a state machine once, the same way each time: `python -m tests.property.model.trial NAME`.

It ends with 0 if all laws hold, and with 1 and the law on its last line if one is broken.  It runs
whichever `sharder` comes first on the path, and prints where that is.

Hypothesis sorts the rules of a machine by name: renaming one can change every run, and then all
mutants have to be tried again.
"""

import sys
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

import sharder
from tests.property.model.counted import Counted
from tests.property.model.laws import Broken
from tests.property.model.machine import Protocol

SETTINGS = settings(
    max_examples=500,
    stateful_step_count=40,
    deadline=None,
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


MACHINES = {machine.__name__: machine for machine in (Protocol, Counted)}


def main(name: str) -> int:
    """Return whether a law is broken; any other failure is raised."""
    sys.stdout.write(f"{Path(sharder.__file__).parent}\n")
    try:
        run_state_machine_as_test(MACHINES[name], settings=SETTINGS)
    except Broken as broken:
        sys.stdout.write(f"{broken}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
