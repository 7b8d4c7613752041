"""Processes and a directory that do not outlive their client, not even after SIGKILL.

`Supervisor` starts `hack.supervisor_process` in a session of its own, and sends requests to its
standard input.  When the client ends, the operating system closes that pipe; the supervising
process then stops all processes, the last started first, and removes the directory.
PR_SET_PDEATHSIG is no alternative: it depends on the thread that forked, and only Linux has it.
"""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hack import supervisor_process
from hack.supervisor_process import PID_FILE, Message, log_file


class SupervisorError(Exception):
    """A request failed; the message has the reason."""


class Supervisor:
    """A directory, and processes with their output in its file `logs/NAME.log`.

    A context manager: its end, or the end of the calling process, stops all processes and removes
    the directory.  It is thread-safe.
    """

    def __init__(self, directory: Path | None = None) -> None:
        """Start the supervising process.

        Args:
            directory: The directory to create, and to remove at the end; by default a temporary
                one.

        Raises:
            SupervisorError: `directory` exists already, or cannot be created.
        """
        self._lock = threading.Lock()
        self._detached = False
        self._pids: dict[str, int] = {}
        """Of processes that are not known to have ended: no other process has their number."""
        command = [
            sys.executable,
            "-I",
            "-S",
            supervisor_process.__file__,
            *([str(directory)] if directory else []),
        ]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            self.directory = Path(str(self._receive()["directory"]))
        except SupervisorError:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """The process id of the supervising process, which SIGTERM ends like `close`."""
        return self._process.pid

    def run(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> int:
        """Start `command` and return its pid; append to the log of an earlier process `name`.

        Args:
            name: A name that no running process has.
            command: The program and its arguments.
            environment: The whole environment; by default the environment of the caller.

        Raises:
            SupervisorError: The program cannot be started, or `name` runs already.
        """
        variables = dict(os.environ if environment is None else environment)
        answer = self._request({"run": name, "command": list(command), "environment": variables})
        self._pids[name] = int(str(answer["pid"]))
        return self._pids[name]

    def exit_code(self, name: str) -> int | None:
        """Return None while process `name` runs, else its exit code; -N after signal N."""
        code = self._request({"exit_code": name})["exit_code"]
        return None if code is None else self._ended(name, code)

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> int:
        """Send `how`, wait for the end and return the exit code; after GRACE_SECONDS, SIGKILL."""
        if how is signal.SIGKILL:
            self._signal(name, how)
        code = self._request({"stop": name, "signal": int(how)})["exit_code"]
        return self._ended(name, code)

    def terminate(self, name: str) -> None:
        """Send SIGTERM and return at once; the process has no time limit."""
        self._request({"send": name, "signal": int(signal.SIGTERM)})

    def pause(self, name: str) -> None:
        """Pause a process by SIGSTOP; its connections stay open."""
        self._signal(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Resume a paused process."""
        self._signal(name, signal.SIGCONT)

    def log(self, name: str) -> Path:
        """Return the file with all the output of process `name`."""
        return log_file(self.directory, name)

    def detach(self) -> None:
        """Let the processes outlive this one; `stop_detached` ends them."""
        self._request({"detach": ""})
        self._detached = True

    def close(self) -> None:
        """Stop all processes and remove the directory; return when both are done.

        Idempotent.  After `detach`, only close the connection to the supervising process.
        """
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        if not self._detached:
            self._process.wait()

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal at once, though the supervising process can be waiting for an end.

        No error if the process has ended.
        """
        if name in self._pids:
            with suppress(ProcessLookupError):
                os.kill(self._pids[name], number)

    def _ended(self, name: str, code: object) -> int:
        self._pids.pop(name, None)
        return int(str(code))

    def _request(self, request: Message) -> Message:
        with self._lock:
            assert self._process.stdin is not None  # noqa: S101 - it is a pipe
            try:
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
            except (OSError, ValueError) as problem:
                raise SupervisorError(f"the supervisor is gone: {problem}") from problem
            return self._receive()

    def _receive(self) -> Message:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        line = self._process.stdout.readline()
        if not line:
            raise SupervisorError("the supervisor ended")
        answer: Message = json.loads(line)
        if "error" in answer:
            raise SupervisorError(str(answer["error"]))
        return answer


def stop_detached(directory: Path) -> bool:
    """Stop a detached supervisor and its processes, and wait; return False if there was none.

    The directory of a dead supervisor is removed too, with the result True.
    """
    try:
        file = (directory / PID_FILE).open()
    except FileNotFoundError:
        return False
    with file:
        if _is_locked(file.fileno()):
            os.kill(int(file.read()), signal.SIGTERM)
            fcntl.flock(file, fcntl.LOCK_EX)
    shutil.rmtree(directory, ignore_errors=True)
    return True


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
