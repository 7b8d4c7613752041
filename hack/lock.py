"""Write the lock files of the image: versions with the hashes of all their distributions.

`python -m hack.lock` writes hack/requirements.lock and hack/build.lock, with the versions of
hack/constraints.txt, which development uses too.  With `--upgrade` it first writes the newest
versions that pyproject.toml allows to hack/constraints.txt.
"""

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = ROOT / "hack/constraints.txt"
RUNTIME = ROOT / "hack/requirements.lock"
"""The lock file of the sharder's dependencies."""
BUILD = ROOT / "hack/build.lock"
"""The lock file of the packages that build its wheel."""

_HASHED = ("--universal", "--generate-hashes", f"--constraints={CONSTRAINTS}")


def write(file: Path, *arguments: str, build: str = "") -> None:
    """Resolve requirements with `uv pip compile`, and write the versions to a file.

    Args:
        file: The output file; its versions are kept if they still fit.
        arguments: Options, and files with requirements; `-` stands for `build`.
        build: Requirements of the build, one on a line.

    Raises:
        subprocess.CalledProcessError: No versions fit; uv has printed the reason.
    """
    uv = str(Path(sys.executable).with_name("uv"))
    command = [uv, "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate"]
    command += [f"--output-file={file}", "--python-version=3.11", *arguments]
    subprocess.run(command, input=build, stdout=subprocess.DEVNULL, text=True, check=True)
    print(f"wrote {file.relative_to(ROOT)}")


def main() -> int:
    """Write the files; return uv's exit code if it failed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m hack.lock", description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    upgrade: bool = parser.parse_args().upgrade
    build = "\n".join(tomllib.loads(PROJECT.read_text())["build-system"]["requires"])
    try:
        if upgrade:
            write(CONSTRAINTS, "--upgrade", "--all-extras", str(PROJECT), "-", build=build)
        write(RUNTIME, *_HASHED, "--extra=server", str(PROJECT))
        write(BUILD, *_HASHED, "-", build=build)
    except subprocess.CalledProcessError as problem:
        return problem.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
