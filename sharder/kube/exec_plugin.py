"""Credential plugins of a kubeconfig, `user.exec`: programs that print a token or a certificate.

Source: https://kubernetes.io/docs/reference/config-api/client-authentication.v1
"""

import asyncio
import os
import sys
from datetime import datetime
from typing import Final

import msgspec

from sharder.core.api.lease import parse_time
from sharder.core.errors import ConfigError

_EARLY_SECONDS: Final = 300.0
"""A credential is replaced so long before it expires."""


class _Variable(msgspec.Struct, frozen=True):
    name: str
    value: str


class Exec(msgspec.Struct, frozen=True, rename="camel"):
    """The plugin in a kubeconfig."""

    command: str
    api_version: str
    args: tuple[str, ...] | None = None
    env: tuple[_Variable, ...] | None = None
    install_hint: str | None = None


class Credential(msgspec.Struct, frozen=True, rename="camel"):
    """The answer of a plugin."""

    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: str | None = None

    def lifetime(self, now: datetime, shortest: float) -> float:
        """Return after how many seconds the plugin has to run again, at least `shortest`."""
        end = parse_time(self.expiration_timestamp)
        left = 0.0 if end is None else (end - now).total_seconds() - _EARLY_SECONDS
        return max(shortest, left)


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    status: Credential


async def run(plugin: Exec) -> Credential:
    """Run the plugin; it can ask the user on the terminal.

    Raises:
        ConfigError: there is no such program, it fails, or its answer is no credential.
    """
    spec = {"interactive": sys.stdin is not None and sys.stdin.isatty()}
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**os.environ, **{each.name: each.value for each in plugin.env or ()}}
    environment["KUBERNETES_EXEC_INFO"] = msgspec.json.encode(info).decode()
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command, *(plugin.args or ()), env=environment, stdout=asyncio.subprocess.PIPE
        )
    except OSError as error:
        hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
        raise ConfigError(f"cannot run {plugin.command}: {error.strerror}{hint}") from error
    try:
        printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        raise ConfigError(f"{plugin.command} failed with exit code {process.returncode}")
    try:
        answer = msgspec.json.decode(printed, type=_Answer)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{plugin.command} printed no ExecCredential: {error}") from error
    if answer.api_version != plugin.api_version:
        raise ConfigError(
            f"{plugin.command} printed version {answer.api_version}, not {plugin.api_version}"
        )
    return answer.status
