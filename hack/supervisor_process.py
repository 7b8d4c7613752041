"""The supervising process of `hack.supervisor`: runs processes in a directory for its client.

It runs as a file with an isolated Python (`-I -S`), so it imports the standard library only.
Requests are lines of JSON on standard input; the answers on standard output have the same order:

    {"run": NAME, "command": [...], "environment": {...}}   {"pid": ...}
    {"exit_code": NAME}                                     {"exit_code": null or a number}
    {"send": NAME, "signal": NUMBER}                        {}
    {"stop": NAME, "signal": NUMBER}                        {"exit_code": ...}
    {"detach": ""}                                          {}

A failed request has the answer {"error": TEXT}.  At the end of the input, or after a signal, the
process stops all processes and removes the directory.
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
"""The time between SIGTERM, or another signal of `stop`, and SIGKILL."""

PID_FILE = "supervisor.pid"
"""The file with the pid of the supervising process, which locks the file as long as it runs."""


def log_file(directory: Path, name: str) -> Path:
    """Return the log file of process `name`."""
    return directory / "logs" / f"{name}.log"


class _Processes:
    """Runs the processes and answers the requests of the client."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._busy = False
        self._stopping = False
        self._detached = False

    def interrupt(self, *_: object) -> None:
        """Handle a signal: interrupt a wait, but never a request, such as a half-done start."""
        self._stopping = True
        if not self._busy:
            raise KeyboardInterrupt

    def serve(self, requests: Iterable[str]) -> None:
        """Answer requests until their end or a signal, then stop all processes.

        After a detach, the end of the requests stops nothing: only a signal does.
        """
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
            pass  # a signal or a dead client: stop, as at the end of the requests
        finally:
            self._busy = True
            for name in reversed(self._started):
                self._stop(name, signal.SIGTERM)

    def _answer(self, request: Message) -> Message:
        try:
            return self._carry_out(request)
        except (OSError, ValueError) as problem:
            return {"error": str(problem)}
        except KeyError as name:
            return {"error": f"no process {name} was started"}

    def _carry_out(self, request: Message) -> Message:
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
        self._started.pop(name, None)  # so that the new process is the last in the dict
        with log_file(self._directory, name).open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._started[name] = process
        return process.pid

    def _stop(self, name: str, number: int) -> int:
        process = self._started[name]
        process.send_signal(number)
        process.send_signal(signal.SIGCONT)  # a paused process does not handle the first signal
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
            # A detached supervisor must not keep the caller's standard error open: readers would
            # wait for it.
            with log_file(directory, "supervisor").open("w") as log:
                os.dup2(log.fileno(), sys.stderr.fileno())
            print(json.dumps({"directory": str(directory)}), flush=True)
            processes.serve(sys.stdin)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(_main())
