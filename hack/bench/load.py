"""The load: requests of `generator`, a program in Go, whose TLS needs less CPU than Python's."""

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import msgspec

from hack.binaries import generator

NUMBER = "{n}"
"""The placeholder for the number of a request, in its path and body."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A request, `at` seconds after the start of its job."""

    at: float
    method: str
    path: str
    type: str = "application/json"
    body: str = ""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Requests to send; see generator/main.go."""

    url: str
    client: str = ""
    """The file with the client's certificate and key; empty: no client certificate."""
    connections: int
    method: str = "POST"
    path: str = ""
    type: str = "application/json"
    bodies: Sequence[str] = ()
    """The requests use them in turn."""
    first: int = 0
    requests: int = 0
    expect: str = ""
    timetable: Sequence[Entry] = ()
    """The requests, instead of all fields above but the first three."""


class Report(msgspec.Struct, frozen=True):
    """The result of a job; times are in seconds."""

    seconds: float
    p50: float
    p99: float
    failures: int
    why: str


class LoadError(Exception):
    """Some requests did not get the expected answer; the message has one of the answers."""


class Load:
    """A running generator; its connections stay open between jobs."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int:
        """The pid of the generator."""
        return self._process.pid

    async def send(self, job: Job) -> Report:
        """Send all requests.

        Raises:
            LoadError: an answer is not as expected.
        """
        report = await self.play(job)
        if report.failures:
            raise LoadError(f"{report.failures} of {job.requests} requests failed: {report.why}")
        return report

    async def play(self, job: Job) -> Report:
        """Send all requests, whatever the answers are."""
        jobs, reports = self._process.stdin, self._process.stdout
        assert jobs is not None and reports is not None  # noqa: PT018, S101 - they are pipes
        async with self._turn:
            jobs.write(msgspec.json.encode(job))
            return msgspec.json.decode(await reports.readline(), type=Report)


@asynccontextmanager
async def started() -> AsyncIterator[Load]:
    """Start a generator, and end it."""
    program = await asyncio.to_thread(generator)
    process = await asyncio.create_subprocess_exec(program, stdin=PIPE, stdout=PIPE)
    try:
        yield Load(process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()
