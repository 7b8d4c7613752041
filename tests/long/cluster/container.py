"""A container of a pod: its process, what its probes say, and its end."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from signal import SIGKILL, SIGTERM
from typing import Final

import aiohttp

from tests.long.cluster.contents import Contents, Tree
from tests.long.cluster.sandbox import Sandbox

BACKOFF_SECONDS: Final = 1.0
"""From an end to the next start; a kubelet waits for 10 s, and longer each time."""
LAST_SECONDS: Final = 2.0
"""From SIGTERM to SIGKILL at least (kubelet, minimumGracePeriodInSeconds)."""
_ANY_CERTIFICATE: Final = ssl._create_unverified_context()  # noqa: S323 - as kubelets do


async def _until(fact: Callable[[], bool]) -> None:
    """Wait for what a process or the API server makes true."""
    while not fact():  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(0.05)


class Container:
    """A container, which starts again whenever it ends."""

    def __init__(self, spec: Tree, sandbox: Sandbox, contents: Contents) -> None:
        self.is_started = False
        """Whether its startup probe has passed."""
        self.is_ready = False
        self.is_stopping = False
        self.has_ended = True
        self._starts = 0
        self._name, self._spec = spec["name"], spec
        self._sandbox, self._contents = sandbox, contents

    @property
    def status(self) -> Tree:
        """Its part of the status of the pod."""
        return {
            **{key: self._spec[key] for key in ("name", "image")},
            "imageID": "",
            "ready": self.is_ready,
            "started": self.is_started,
            "restartCount": max(0, self._starts - 1),
            "state": {"waiting" if self.has_ended else "running": {}},
        }

    async def run(self) -> None:
        """Run it until it is stopped."""
        while not self.is_stopping:
            self._starts += 1
            self._contents.start(self._spec, self._starts)
            self.has_ended = False
            async with asyncio.TaskGroup() as group:
                probing = group.create_task(self._follow_probes())
                await _until(lambda: self._sandbox.exit_code(self._name) is not None)
                probing.cancel()
            self.has_ended, self.is_ready, self.is_started = True, False, False
            await asyncio.sleep(BACKOFF_SECONDS)

    async def until_started(self) -> None:
        """Wait until it is started."""
        await _until(lambda: self.is_started)

    async def stop(self, deadline: float, after: Sequence["Container"]) -> None:
        """Stop it once others have ended, or at a time of the monotonic clock."""
        self.is_stopping = True
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline - time.monotonic()):
                if hook := self._spec.get("lifecycle", {}).get("preStop"):
                    await self._carry_out(hook)
                await _until(lambda: all(each.has_ended for each in after))
        await self._end(deadline)

    async def _end(self, deadline: float) -> None:
        if self.has_ended:
            return
        self._sandbox.send(self._name, SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(LAST_SECONDS, deadline - time.monotonic())):
                await _until(lambda: self.has_ended)
        self._sandbox.send(self._name, SIGKILL)
        await _until(lambda: self.has_ended)

    async def _follow_probes(self) -> None:
        async for passed in self._results("startupProbe"):
            self.is_started = passed
            if passed:
                break
            await self._end(0)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_liveness())
            async for passed in self._results("readinessProbe"):
                self.is_ready = passed

    async def _follow_liveness(self) -> None:
        async for passed in self._results("livenessProbe"):
            if not passed and not self.is_stopping:
                await self._end(0)

    async def _results(self, kind: str) -> AsyncIterator[bool]:
        """Yield what a probe says, each time it has said so often enough; without one, yes."""
        probe = self._spec.get(kind)
        if probe is None:
            yield True
            return
        last, times = None, 0
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        while True:
            passed = await self._passes(probe)
            last, times = passed, times + 1 if passed == last else 1
            if times >= probe["successThreshold" if passed else "failureThreshold"]:
                yield passed
            await asyncio.sleep(probe["periodSeconds"])

    async def _passes(self, probe: Tree) -> bool:
        try:
            async with asyncio.timeout(probe["timeoutSeconds"]):
                return await self._carry_out(probe)
        except (OSError, aiohttp.ClientError):  # also TimeoutError
            return False

    async def _carry_out(self, action: Tree) -> bool:
        """Do what a probe or a hook says, and return whether that succeeded."""
        match action:
            case {"exec": {"command": command}}:
                return await self._sandbox.execute(self._name, command)
            case {"sleep": {"seconds": seconds}}:
                await asyncio.sleep(seconds)
                return True
            case {"httpGet": {"port": port, "path": path, "scheme": scheme}}:
                named = {
                    each.get("name"): each["containerPort"] for each in self._spec.get("ports", ())
                }
                address = f"{self._sandbox.address}:{named.get(port, port)}"
                async with (
                    aiohttp.ClientSession() as session,
                    session.get(
                        f"{scheme.lower()}://{address}{path}",
                        ssl=_ANY_CERTIFICATE,
                        allow_redirects=False,
                    ) as answer,
                ):
                    return answer.status < 400
            case _:
                raise NotImplementedError(action)
