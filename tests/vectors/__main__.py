"""Write what is wrong with files of vectors.

Exits 1 if anything differs or could not be checked.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from tests.vectors import check
from tests.vectors.result import Result


def main(files: list[str]) -> int:
    """Write a line per case, and one per difference; return the exit code."""
    if not files:
        sys.stderr.write("usage: python -m tests.vectors FILE…\n")
        return 2
    failed = False
    for file in files:
        results = list(_check_file(Path(file))) or [Result(case="file", problems=("is empty",))]
        for result in results:
            failed |= bool(result.problems)
            verdict = "FAILED" if result.problems else "ok"
            lines = [f"{verdict:<7}{file}: {result.case}", *result.problems]
            sys.stdout.write("\n         ".join(lines) + "\n")
    return int(failed)


def _check_file(path: Path) -> Iterator[Result]:
    try:
        data = path.read_bytes()
    except OSError as error:
        yield Result(case="file", problems=(f"cannot be read: {error.strerror}",))
        return
    yield from check(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
