"""Run the Go tool with all its files in one folder, and report progress.

The module imports the standard library only: see `hack.binaries`.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

REPORT_EVERY_SECONDS = 15
"""The time between two lines of progress if standard error is no terminal."""


class GoError(Exception):
    """No usable Go tool exists, or the tool failed; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Go:
    """A Go tool of a sufficient version, with the module and the environment to run it in."""

    program: str
    module: Path
    environment: Mapping[str, str]


def find_go(module: Path, workspace: Path) -> Go:
    """Return the Go tool on PATH, configured to write below `workspace` only.

    An older Go can download a newer toolchain for go.mod; the version of that toolchain counts.

    Raises:
        GoError: There is none, or it is older than the version in the go.mod of `module`.
    """
    wanted = re.search(r"^go (\d+)\.(\d+)", (module / "go.mod").read_text(), re.MULTILINE)
    if wanted is None:
        raise GoError(f"{module / 'go.mod'} names no Go version")
    at_least = f"Go >= {wanted[1]}.{wanted[2]} is needed"
    program = shutil.which("go")
    if program is None:
        raise GoError(f"{at_least} and there is none")
    environment = _environment(program, workspace)
    answer = _output([program, "env", "GOVERSION"], module, environment)
    version = re.match(r"go(\d+)\.(\d+)", answer)
    if version is None:
        raise GoError(f"{at_least} and {program} cannot be used ({answer})")
    if (int(version[1]), int(version[2])) < (int(wanted[1]), int(wanted[2])):
        raise GoError(f"{at_least} and {program} is {answer}")
    return Go(program=program, module=module, environment=environment)


def _environment(program: str, workspace: Path) -> Mapping[str, str]:
    """Return the user's environment, but with all of Go's folders below `workspace`.

    The user's module cache is the first module proxy, so its modules are not downloaded again.
    """
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    if platform.system() == "Darwin":
        config = Path.home() / "Library" / "Application Support"
    environment = {
        **os.environ,
        "GOENV": os.environ.get("GOENV") or str(config / "go" / "env"),
        "XDG_CONFIG_HOME": str(workspace / "config"),  # for Go's telemetry counters
    }
    downloads = Path(_output([program, "env", "GOMODCACHE"], workspace, environment))
    downloads = downloads / "cache" / "download"
    proxy = _output([program, "env", "GOPROXY"], workspace, environment)
    return {
        **environment,
        "CGO_ENABLED": "0",  # no C compiler needed
        "GOFLAGS": "-buildvcs=false -modcacherw",
        "GOPATH": str(workspace / "go"),
        "GOMODCACHE": str(workspace / "go" / "modules"),
        "GOCACHE": str(workspace / "go" / "build"),
        "GOTMPDIR": str(workspace / "tmp"),
        "GOPROXY": f"file://{downloads},{proxy}" if downloads.is_dir() else proxy,
    }


def _output(command: list[str], directory: Path, environment: Mapping[str, str]) -> str:
    """Return the last line that a command prints on standard output or standard error."""
    done = subprocess.run(
        command,
        cwd=directory,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return (done.stdout.strip().splitlines() or ["no answer"])[-1]


@dataclass(slots=True)
class Progress:
    """Progress on standard error: one changing line, or without a terminal a line now and then."""

    title: str
    total: int = 0
    """The maximum number of packages to compile; 0 if it is not known yet."""
    _done: int = 0
    _current: str = "starting"
    _tail: deque[str] = field(default_factory=lambda: deque(maxlen=20))
    _started: float = field(default_factory=time.monotonic)
    _reported: float = float("-inf")

    def follow(self, go: Go, *arguments: str) -> list[str]:
        """Run Go, show its progress, and return the lines of its standard output.

        Raises:
            GoError: It failed; the last lines of its standard error were printed.
        """
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [go.program, *arguments],
                cwd=go.module,
                env=dict(go.environment),
                stdout=output,
                stderr=subprocess.PIPE,
                text=True,
            )
            reader = threading.Thread(target=self._read, args=(process.stderr or (),))
            with process:
                try:
                    reader.start()
                    while reader.is_alive():
                        reader.join(timeout=1)
                        self._report()
                except BaseException:
                    process.terminate()
                    raise
            if process.returncode != 0:
                self.say("\n".join(["failed:", *self._tail]))
                raise GoError(f"go {arguments[0]} failed, its last words are above")
            output.seek(0)
            return output.read().splitlines()

    def say(self, text: str) -> None:
        """Print `text` on a line of its own, after the title and the time since the start."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr)
        print(f"{self._headline()}, {text}", file=sys.stderr, flush=True)

    def _headline(self) -> str:
        return f"{self.title}: {time.monotonic() - self._started:.0f} s"

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._tail.append(line.rstrip())
            self._current = line.strip()[:60]
            self._done += not line.startswith(("go: ", "#"))

    def _report(self) -> None:
        of = f"package {self._done} of {self.total}, " if self.total else ""
        now = time.monotonic()
        if sys.stderr.isatty():
            text = f"{self._headline()}, {of}{self._current}"
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\x1b[K{text[:width]}", end="", file=sys.stderr, flush=True)
        elif now - self._reported >= REPORT_EVERY_SECONDS:
            self._reported = now
            self.say(f"{of}{self._current}")
