"""How the controller reaches the proxy: a port, and a kubeconfig or the files of an account.

Each request of the controller keeps its own credentials, so the files have those of this process.
"""

import asyncio
import base64
import logging
import os
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web

from sharder.core.errors import ConfigError, Unavailable
from sharder.kube.access import REFRESH_SECONDS, Access
from sharder.proxy.server import MAX_BODY, ProxyServer
from sharder.runtime.child_process import in_child
from sharder.runtime.clock import Clock
from sharder.runtime.memory import keep_trimmed
from sharder.runtime.pem_file import readable

HOST: Final = "127.0.0.1"
MAX_HEAD: Final = 1024 * 1024
"""Bytes of a URL or a header: as the API server accepts, for long selectors."""
_BEARER: Final = "Bearer "

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """Where the controller comes in."""

    port: int
    """0 takes a free one."""
    kubeconfig: Path | None
    """Where to write the controller's kubeconfig."""
    account: Path | None
    """Where to write the files of the controller's service account."""
    namespace: str
    """The namespace of the account."""

    @asynccontextmanager
    async def open(
        self, server: ProxyServer, access: Access, clock: Clock
    ) -> AsyncGenerator[None, None]:
        """Serve on the loopback, and keep the files as new as the token of `access`.

        Raises:
            ConfigError: `access` has no token.
        """
        with suppress(Unavailable):
            header = await access.authorization.header()
            if (self.kubeconfig or self.account) and not header.startswith(_BEARER):
                raise ConfigError(
                    "the controller needs a token: run the proxy with a kubeconfig that has one, "
                    "not a client certificate or a password"
                )
        authority, serving = await _issued()
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{path:.*}", server.handle)
        runner = web.AppRunner(
            app,
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=1,
            max_line_size=MAX_HEAD,
            max_field_size=MAX_HEAD,
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, HOST, self.port, ssl_context=_context(serving))
            await site.start()
            port = int(runner.addresses[0][1])
            _log.info("serving the controller on https://%s:%d", HOST, port)
            async with asyncio.TaskGroup() as group:
                works = self._keep_written(access, clock, port, authority), keep_trimmed(clock)
                tasks = [group.create_task(each) for each in works]
                yield
                for task in tasks:
                    task.cancel()
        finally:
            await runner.cleanup()

    async def _keep_written(
        self, access: Access, clock: Clock, port: int, authority: bytes
    ) -> None:
        """Write the files, again whenever the token has changed."""
        written = ""
        while True:
            try:
                token = (await access.authorization.header()).removeprefix(_BEARER)
            except Unavailable as error:
                _log.warning("the controller keeps its token: %s", error)
                token = written
            if token != written:
                self._write(port, authority, token)
                written = token
            await clock.sleep(REFRESH_SECONDS)

    def _write(self, port: int, authority: bytes, token: str) -> None:
        if self.kubeconfig is not None:
            config = msgspec.json.encode(_kubeconfig(port, authority, token))  # YAML has all of it
            _replace(self.kubeconfig, config, mode=0o600)
        if self.account is not None:
            # As in /var/run/secrets/kubernetes.io/serviceaccount; the controller starts when the
            # token is there.
            _replace(self.account / "ca.crt", authority)
            _replace(self.account / "namespace", self.namespace.encode())
            _replace(self.account / "token", token.encode())


def _kubeconfig(port: int, authority: bytes, token: str) -> dict[str, object]:
    trust = base64.b64encode(authority).decode()
    cluster = {"server": f"https://{HOST}:{port}", "certificate-authority-data": trust}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "proxy",
        "clusters": [{"name": "proxy", "cluster": cluster}],
        "users": [{"name": "proxy", "user": {"token": token}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
    }


def _replace(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """Write a file at once; the containers of a pod can have different users."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.touch(mode=mode)
    draft.write_bytes(content)
    draft.replace(path)


async def _issued() -> tuple[bytes, bytes]:
    """Return a new authority, and a certificate of it with its key."""
    made = await in_child("sharder.proxy.certificate")(HOST.encode())
    authority, _, serving = made.partition(b"\n\n")
    return authority + b"\n", serving


def _context(pair: bytes) -> ssl.SSLContext:
    """Return the context of our server."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with readable(pair) as path:
        context.load_cert_chain(path)
    return context
