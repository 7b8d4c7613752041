"""Write what the image installs, each with the hashes of all files that it may come as.

`python -m hack.lock` takes the versions of hack/constraints.txt, which everybody develops with;
`--upgrade` first gives that file the newest versions that pyproject.toml allows.  Only these are
changed: hack/constraints.txt, hack/requirements.lock and hack/build.lock.
"""

import argparse
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = ROOT / "hack/constraints.txt"
RUNTIME = ROOT / "hack/requirements.lock"
"""What the sharder runs with."""
BUILD = ROOT / "hack/build.lock"
"""What makes a wheel of it."""

_UV = ("uv", "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate")
_HASHED = ("--universal", "--generate-hashes", f"--constraints={CONSTRAINTS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wants:
    """What pyproject.toml asks for."""

    python: str
    """The oldest that will do, such as 3.11."""
    build: tuple[str, ...]
    runtime: tuple[str, ...]
    """With the extra `server`."""
    everything: tuple[str, ...]
    """With all extras, and what the build needs."""


def wants() -> Wants:
    """Read pyproject.toml."""
    document = tomllib.loads(PROJECT.read_text())
    project = document["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    build = tuple(document["build-system"]["requires"])
    runtime = (*project["dependencies"], *extras["server"])
    return Wants(
        python=str(project["requires-python"]).removeprefix(">="),
        build=build,
        runtime=runtime,
        everything=(*build, *runtime, *extras["dev"]),
    )


def write(file: Path, requirements: Sequence[str], options: Sequence[str], python: str) -> None:
    """Resolve requirements into a file.

    Raises:
        subprocess.CalledProcessError: They cannot be resolved; the reason was printed.
    """
    program = str(Path(sys.executable).parent / _UV[0])
    command = [program, *_UV[1:], *options, f"--python-version={python}", "-"]
    text = "\n".join(requirements)
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
    file.write_text(done.stdout)
    print(f"wrote {file.relative_to(ROOT)}")


def main() -> int:
    """Write the files; 1 where that was not possible."""
    parser = argparse.ArgumentParser(prog="python -m hack.lock", description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    upgrade: bool = parser.parse_args().upgrade
    wanted = wants()
    try:
        if upgrade:
            write(CONSTRAINTS, wanted.everything, (), wanted.python)
        write(RUNTIME, wanted.runtime, _HASHED, wanted.python)
        write(BUILD, wanted.build, _HASHED, wanted.python)
    except subprocess.CalledProcessError as problem:
        return problem.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
