"""`sharder plan --file`: from a dump, without a cluster."""

import sys
from pathlib import Path

from sharder.config.strategies import custom_of
from sharder.core.errors import ConfigError
from sharder.core.plan.dump import decode_dump, plan_dump
from sharder.core.plan.plan import PlanReport
from sharder.core.plan.what_if import WhatIf


def plan_file(file: Path, what_if: WhatIf) -> PlanReport:
    """Return the plan for a dump, at its newest renewTime; the file `-` means stdin.

    Raises:
        ConfigError: the file cannot be read or decoded, or `what_if` is not possible.
    """
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    try:
        dump = decode_dump(data)
    except ConfigError as error:
        raise ConfigError(f"cannot plan from {file}: {error}") from error
    strategy = what_if.ring(dump.ring).spec.placement.strategy
    return plan_dump(
        dump,
        dump.newest_renewal(),
        what_if=what_if,
        custom=custom_of(strategy),
    )
