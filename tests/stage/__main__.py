"""Play seeds, judge them, and show what went wrong: `python -m tests.stage --seeds 1000`.

--seed N      only this seed, with its faults, and the history of each object that it broke
--first N     the first of the seeds
--mutant M    with a deliberate bug: ends at the first seed that finds it
"""

import argparse
import gc
import logging
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from tests.history.timeline import histories
from tests.stage.mutants import MUTANTS
from tests.stage.play import play
from tests.stage.setup import Setup

_PROCESSES = os.cpu_count() or 1
_AT_ONCE = 4
"""Seeds that a process plays before its garbage is collected."""


def main() -> int:
    """Return 0 if all seeds are good, and with a mutant if one is not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--mutant", choices=sorted(MUTANTS))
    arguments = parser.parse_args()
    if "PYTHONHASHSEED" not in os.environ:  # the order of sets is part of a play
        os.execve(  # noqa: S606 - this program again
            sys.executable,
            [sys.executable, "-m", "tests.stage", *sys.argv[1:]],
            os.environ | {"PYTHONHASHSEED": "0"},
        )
    if arguments.seed is not None:
        return _show(arguments.seed, arguments.mutant)
    return _search(arguments.first, arguments.seeds, arguments.mutant)


def _search(first: int, seeds: int, mutant: str | None) -> int:
    began, played, bad = time.monotonic(), 0, list[int]()
    for seed, problems in _all(range(first, first + seeds), mutant):
        played += 1
        if problems:
            bad.append(seed)
            print(f"seed {seed}: {'; '.join(problems[:3])}", flush=True)
            if mutant:
                break
        if played % 500 == 0:
            print(f"{played} seeds, {len(bad)} bad", flush=True)
    seconds = time.monotonic() - began
    print(f"{played} seeds from {first} in {seconds:.0f} s ({played / seconds:.1f}/s)")
    if mutant:
        print(f"{mutant}: {'found' if bad else 'NOT FOUND'} after {seconds:.0f} s")
        return 0 if bad else 1
    print(
        f"{len(bad)} bad; play one again with make simulate SEED={bad[0]}" if bad else "all good"
    )
    return 1 if bad else 0


def _all(seeds: range, mutant: str | None) -> Iterator[tuple[int, list[str]]]:
    """Yield each seed with its problems; one process for each core plays."""
    parts = [seeds[at : at + _AT_ONCE] for at in range(0, len(seeds), _AT_ONCE)]
    with ProcessPoolExecutor(_PROCESSES, initializer=_begin, initargs=(mutant,)) as pool:
        try:
            for played in pool.map(_play_some, parts):
                yield from played
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin(mutant: str | None) -> None:
    logging.disable(logging.CRITICAL)
    gc.freeze()
    gc.disable()  # a play makes few cycles, and looking for them takes a twentieth
    if mutant:
        MUTANTS[mutant].apply()


def _play_some(seeds: range) -> list[tuple[int, list[str]]]:
    played = [(seed, play(Setup.of(seed)).problems) for seed in seeds]
    gc.collect()
    return played


def _show(seed: int, mutant: str | None) -> int:
    _begin(mutant)
    result = play(Setup.of(seed))
    print(result.setup)
    for fault in result.faults:
        print(f"  {fault}")
    for problem in result.problems:
        print(problem)
    for line in histories(result.trace, result.verdict):
        print(line)
    print("good" if not result.problems else "bad")
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main())
