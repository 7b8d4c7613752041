"""The process behind `hack.supervisor`: holds a directory and child processes for its client.

It is run as a file, isolated (`-I -S`), hence the standard library only.  Requests come as lines
of JSON on standard input and are answered on standard output, in order:

    {"run": NAME, "command": [...], "environment": {...}}   {"pid": ...}
    {"exit_code": NAME}                                     {"exit_code": null or a number}
    {"send": NAME, "signal": NUMBER}                        {}
    {"stop": NAME, "signal": NUMBER}                        {"exit_code": ...}
    {"detach": ""}                                          {}

or else with {"error": TEXT}.  The end of the input, or a signal, is the order to stop everything.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

Message: TypeAlias = dict[str, "str | int | list[str] | dict[str, str] | None"]

GRACE_SECONDS = 15
"""How long a process may take to obey SIGTERM before it gets SIGKILL."""

PID_FILE = "supervisor.pid"
"""Names the supervising process in its directory; locked as long as that one lives."""


def log_file(directory: Path, name: str) -> Path:
    """Return where the output of process `name` goes."""
    return directory / "logs" / f"{name}.log"


class _Processes:
    """The far end: carries requests out, in the supervising process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._busy = False
        self._stopping = False
        self._detached = False

    def interrupt(self, *_: object) -> None:
        """Handle a signal: end the waiting, but never between a fork and its record."""
        self._stopping = True
        if not self._busy:
            raise KeyboardInterrupt

    def serve(self, requests: Iterable[str]) -> None:
        """Answer until the caller is gone or a signal came, then stop everything."""
        try:
            for line in requests:
                self._busy = True
                print(json.dumps(self._answer(json.loads(line))), flush=True)
                self._busy = False
                if self._stopping:
                    break
            while self._detached and not self._stopping:
                time.sleep(3600)  # until a signal
        except (KeyboardInterrupt, BrokenPipeError):
            pass  # the order to stop, as good as the end of the requests
        finally:
            self._busy = True
            for name in reversed(self._started):
                self._stop(name, signal.SIGTERM)

    def _answer(self, request: Message) -> Message:
        try:
            return self._obey(request)
        except (OSError, ValueError) as problem:
            return {"error": str(problem)}
        except KeyError as name:
            return {"error": f"no process {name} was started"}

    def _obey(self, request: Message) -> Message:
        match request:
            case {"run": str(name), "command": list(command), "environment": dict(environment)}:
                return {"pid": self._start(name, command, environment)}
            case {"exit_code": str(name)}:
                return {"exit_code": self._started[name].poll()}
            case {"send": str(name), "signal": int(number)}:
                self._started[name].send_signal(number)
                return {}
            case {"stop": str(name), "signal": int(number)}:
                return {"exit_code": self._stop(name, number)}
            case {"detach": _}:
                self._detached = True
                return {}
            case _:
                return {"error": f"unknown request {request}"}

    def _start(self, name: str, command: list[str], environment: dict[str, str]) -> int:
        before = self._started.get(name)
        if before is not None and before.poll() is None:
            raise ValueError(f"{name} runs already")
        self._started.pop(name, None)  # the new one is the last started
        with log_file(self._directory, name).open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._started[name] = process
        return process.pid

    def _stop(self, name: str, number: int) -> int:
        process = self._started[name]
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # a paused one would not hear of it
        try:
            return process.wait(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _make_directory(wanted: Sequence[str]) -> Path:
    if not wanted:
        return Path(tempfile.mkdtemp(prefix="sharder-"))
    directory = Path(wanted[0])
    directory.mkdir(mode=0o700)
    return directory


def _main() -> int:
    try:
        directory = _make_directory(sys.argv[1:])
    except OSError as problem:
        print(json.dumps({"error": f"cannot make the directory: {problem}"}), flush=True)
        return 1
    processes = _Processes(directory)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, processes.interrupt)
    with (directory / PID_FILE).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            print(os.getpid(), file=file, flush=True)
            (directory / "logs").mkdir()
            # Else readers of the caller's standard error would wait for a detached supervisor.
            with log_file(directory, "supervisor").open("w") as log:
                os.dup2(log.fileno(), sys.stderr.fileno())
            print(json.dumps({"directory": str(directory)}), flush=True)
            processes.serve(sys.stdin)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(_main())
