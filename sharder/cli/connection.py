"""One connection to a cluster, for as long as a command runs."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sharder.kube.client import Client, connect

T = TypeVar("T")


def run(
    kubeconfig: str | None,
    context: str | None,
    work: Callable[[Client], Awaitable[T]],
    *,
    seconds: float | None = None,
) -> T:
    """Connect, await the work, disconnect, and return the result of the work.

    Raises:
        ConfigError: there is no usable kubeconfig.
        TimeoutError: this takes longer than `seconds`.
    """

    async def connected() -> T:
        async with asyncio.timeout(seconds):
            client = await connect(kubeconfig, context, is_brief=True)
            try:
                return await work(client)
            finally:
                await client.close()

    return asyncio.run(connected())
