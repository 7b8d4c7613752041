"""The Dockerfile as data, and what `docker build` would do with one stage, without Docker."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "Dockerfile"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, its lines joined."""

    word: str
    rest: str


def stages() -> list[list[Instruction]]:
    """Return the instructions of each stage, the FROM first."""
    found: list[list[Instruction]] = []
    for instruction in _instructions():
        if instruction.word == "FROM":
            found.append([])
        if found:
            found[-1].append(instruction)
    return found


def context() -> list[Path]:
    """Return the files that a build is given, relative to the repository."""
    lines = [x for x in (ROOT / ".dockerignore").read_text().split("\n") if x[:1] not in {"", "#"}]
    assert lines[0] == "*", "all is left out but what is named"
    named = [line.removeprefix("!") for line in lines if line.startswith("!")]
    unwanted = [line.removeprefix("**/") for line in lines[1:] if not line.startswith("!")]
    places = [ROOT / name for name in named]
    files = [f for p in places for f in (p.rglob("*") if p.is_dir() else [p]) if f.is_file()]
    relative = [file.relative_to(ROOT) for file in files]
    return [f for f in relative if not any(fnmatch(p, u) for p in f.parts for u in unwanted)]


@dataclass(frozen=True, slots=True)
class Build:
    """A stage that is carried out below a folder, which stands for the root of the image."""

    root: Path

    def run(self, stage: list[Instruction]) -> None:
        """Carry out COPY, ENV, WORKDIR and RUN.

        Raises:
            subprocess.CalledProcessError: A RUN failed; `stdout` says why.
        """
        # What our own environment says about Python is not so in the image.
        ours = ("PYTHON", "VIRTUAL_ENV", "COVERAGE")
        variables = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        place = self.root
        for instruction in stage:
            match instruction:
                case Instruction("ENV", rest):
                    variables |= dict(pair.split("=", 1) for pair in rest.split())
                case Instruction("WORKDIR", rest):
                    place = self.root / rest.lstrip("/")
                    place.mkdir(parents=True)
                case Instruction("COPY", rest):
                    *sources, target = rest.split()
                    for source in sources:
                        _copy(Path(source), place, target)
                case Instruction("RUN", rest):
                    self._shell(rest, place, variables)
                case _:
                    assert instruction.word == "FROM", instruction

    def _shell(self, command: str, place: Path, variables: dict[str, str]) -> None:
        # Absolute paths are those of the image.
        moved = re.sub(r"(?<=\s)/opt/", f"{self.root}/opt/", f" {command}")
        subprocess.run(
            ["sh", "-ec", moved],
            cwd=place,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        )


def _instructions() -> Iterator[Instruction]:
    lines = [x for x in FILE.read_text().split("\n") if x.strip() and not x.startswith("#")]
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).split("\n"):
        word, _, rest = line.partition(" ")
        yield Instruction(word, rest)


def _copy(source: Path, place: Path, target: str) -> None:
    files = [file for file in context() if file == source or source in file.parents]
    assert files, f"the context has no {source}"
    for file in files:
        inside = file.relative_to(source) if file != source else Path(file.name)
        # A folder's contents go into the target, a file into it where that ends with a slash.
        is_named = file == source and not target.endswith("/")
        to = place / target if is_named else place / target / inside
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, to)
