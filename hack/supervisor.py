"""Processes and a directory that do not outlive their client, not even after SIGKILL.

`Supervisor` runs this file as a process of its own, the keeper, which learns the number of each
process.  When the client ends, the operating system closes the keeper's input; the keeper then
kills what is left and removes the directory.
PR_SET_PDEATHSIG is no alternative: it depends on the thread that forked, and only Linux has it.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

GRACE_SECONDS = 15
"""The time between SIGTERM, or another signal of `stop`, and SIGKILL."""

_PID_FILE = "keeper.pid"
"""The file with the number of the keeper, which locks the file as long as it runs."""
_DETACH = "detach\n"


class ProcessError(Exception):
    """A process did not start, or has ended; the message has the reason."""


class Supervisor:
    """A directory, and processes with their output in its file `logs/NAME.log`.

    A context manager: its end, or the end of the calling process, ends all processes and removes
    the directory.
    """

    def __init__(self, directory: Path | None = None) -> None:
        """Make the directory, by default a temporary one, and start the keeper.

        Raises:
            ProcessError: `directory` exists already, or cannot be created.
        """
        try:
            if directory is not None:
                directory.mkdir(mode=0o700)
            self.directory = directory or Path(tempfile.mkdtemp(prefix="sharder-"))
            (self.directory / "logs").mkdir()
        except OSError as problem:
            raise ProcessError(f"cannot make the directory: {problem}") from problem
        self._detached = False
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # The keeper must not keep the caller's outputs open: readers would wait for it.
        with self.log("keeper").open("w") as log:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", __file__, str(self.directory)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                text=True,
                process_group=0,
            )

    @property
    def pid(self) -> int:
        """The number of the keeper and of the group of all processes."""
        return self._keeper.pid

    def run(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        """Start `command`; append to the log of an earlier process `name`.

        Args:
            name: A name that no running process has.
            command: The program and its arguments.
            environment: The whole environment; by default the environment of the caller.

        Raises:
            ProcessError: The program cannot be started, or `name` runs already.
        """
        if name in self._processes and self.exit_code(name) is None:
            raise ProcessError(f"{name} runs already")
        self._processes.pop(name, None)  # so that the new process is the last in the dict
        with self.log(name).open("ab") as log:
            try:
                process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=self.pid,
                )
            except OSError as problem:
                raise ProcessError(f"{name} did not start: {problem}") from problem
        self._processes[name] = process
        self._tell(f"{process.pid}\n")

    def pid_of(self, name: str) -> int:
        """Return the number of the last process that was started under this name."""
        return self._processes[name].pid

    def exit_code(self, name: str) -> int | None:
        """Return None while process `name` runs, else its exit code; -N after signal N."""
        return self._processes[name].poll()

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> int:
        """Send `how`, wait for the end and return the exit code; after GRACE_SECONDS, SIGKILL."""
        process = self._processes[name]
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)  # a paused process does not handle the first signal
        try:
            return process.wait(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process and return at once; no error if it has ended."""
        self._processes[name].send_signal(number)

    def log(self, name: str) -> Path:
        """Return the file with all the output of process `name`."""
        return self.directory / "logs" / f"{name}.log"

    def detach(self) -> None:
        """Let the processes outlive this one; `stop_detached` ends them."""
        self._tell(_DETACH)
        self._detached = True

    def close(self) -> None:
        """Stop all processes, the last started first, and remove the directory; idempotent.

        After `detach`, only close the connection to the keeper.
        """
        if not self._detached:
            for name in reversed(self._processes):
                self.stop(name)
        assert self._keeper.stdin is not None  # noqa: S101 - it is a pipe
        self._keeper.stdin.close()
        if not self._detached:
            self._keeper.wait()

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self, line: str) -> None:
        assert self._keeper.stdin is not None  # noqa: S101 - it is a pipe
        self._keeper.stdin.write(line)
        self._keeper.stdin.flush()


def stop_detached(directory: Path) -> bool:
    """End a detached keeper and its processes, and wait; return False if there was none.

    The directory of a dead keeper is removed too, with the result True.
    """
    try:
        file = (directory / _PID_FILE).open()
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.kill(int(file.read()), signal.SIGTERM)
            fcntl.flock(file, fcntl.LOCK_EX)
    shutil.rmtree(directory, ignore_errors=True)
    return True


def _keep(directory: Path) -> None:
    """Note processes until the input or, once detached, a signal ends; then remove everything."""
    pids = list[int]()

    def end(*_: object) -> None:
        for pid in reversed(pids):
            with suppress(ProcessLookupError):
                if os.getpgid(pid) == os.getpgrp():  # else it is another, with a number used again
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)  # they can write until they have ended
        shutil.rmtree(directory, ignore_errors=True)
        sys.exit()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    with (directory / _PID_FILE).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        print(os.getpid(), file=file, flush=True)
        for line in sys.stdin:
            if line == _DETACH:
                while True:
                    signal.pause()
            pids.append(int(line))
        end()


if __name__ == "__main__":
    _keep(Path(sys.argv[1]))
