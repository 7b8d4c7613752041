"""Write what the image installs, each with the hashes of all files that it may come as.

`python -m hack.lock` takes the versions of hack/constraints.txt, which everybody develops with;
`--upgrade` first gives that file the newest versions that pyproject.toml allows.  Only these are
changed: hack/constraints.txt, hack/requirements.lock and hack/build.lock.
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
"""What the sharder runs with."""
BUILD = ROOT / "hack/build.lock"
"""What makes a wheel of it."""

_HASHED = ("--universal", "--generate-hashes", f"--constraints={CONSTRAINTS}")


def write(file: Path, *arguments: str, build: str = "") -> None:
    """Resolve into a file what the arguments name; `-` stands for what the build asks for.

    Raises:
        subprocess.CalledProcessError: It cannot be resolved; the reason was printed.
    """
    uv = str(Path(sys.executable).with_name("uv"))
    command = [uv, "pip", "compile", "--quiet", "--no-config", "--no-header", "--no-annotate"]
    command += [f"--output-file={file}", "--python-version=3.11", *arguments]
    subprocess.run(command, input=build, stdout=subprocess.DEVNULL, text=True, check=True)
    print(f"wrote {file.relative_to(ROOT)}")


def main() -> int:
    """Write the files; 1 where that was not possible."""
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
