"""How a replica takes its leave of the API server, so that no call fails.

A Service goes on to send calls for a while after the readiness probe has said no: until the
kubelet, the EndpointSlice and every node's proxy know.  Who closes the port before that loses
admissions silently, because the API server passes over a webhook that it cannot reach.
"""

from typing import Final, Protocol

from sharder.clock import Clock

SERVE_ON_SECONDS: Final = 10.0
"""How long we serve on when not ready.  A Service drops an endpoint 1-3 s after that was seen;
others wait for 10 s (Gatekeeper's shutdown delay) and 45 s (Knative's quiet period)."""

SERVE_ON_SHARE: Final = 2 / 3
"""Of the time that a stop may take: of 15 s, the default, 5 are left for open requests, and the
API server waits no longer for an answer."""


class Serving(Protocol):
    """A server that can be left in peace; `webhook.server.Server` is one."""

    def retire(self) -> None:
        """Go on serving, but end each connection with its next answer."""
        ...

    async def stop(self, within: float) -> None:
        """Stop listening and give open requests so many seconds."""
        ...


async def retire(server: Serving, *, within: float, clock: Clock) -> None:
    """Serve on until nobody calls any more, then end open requests.

    Call it when the readiness probe says no.

    Args:
        server: Listens.
        within: Seconds in which all is over; negative to wait for open requests without limit.
        clock: Tells when.
    """
    serve_on = SERVE_ON_SECONDS
    if within >= 0:
        serve_on = min(SERVE_ON_SECONDS, within * SERVE_ON_SHARE)
    server.retire()
    await clock.sleep(serve_on)
    await server.stop(float("inf") if within < 0 else within - serve_on)
