"""How to reach an API server: address, TLS and credentials, from a kubeconfig or a pod's account.

The official client does the same, but it takes longer to import than a command to run.
"""

import asyncio
import base64
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import msgspec

from sharder.core.errors import ConfigError, Unavailable
from sharder.kube import exec_plugin
from sharder.kube.exec_plugin import Exec
from sharder.runtime.clock import SystemClock
from sharder.runtime.pem_file import readable

REFRESH_SECONDS: Final = 60.0
"""Between two reads of a token: those of files and plugins are valid for at least some minutes."""
_READ_SECONDS: Final = 10.0
_KUBECONFIG: Final = "~/.kube/config"
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Token(NamedTuple):
    """A value of the header Authorization, empty for none."""

    value: str
    lifetime: float = REFRESH_SECONDS
    """Seconds until it has to be read again."""


Reader: TypeAlias = Callable[[], Awaitable[Token]]


class Authorization:
    """The header Authorization, read again in time."""

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._token = Token("")
        self._fresh_until = 0.0
        self._lock = asyncio.Lock()

    async def header(self) -> str:
        """Return the value, empty if there is none.

        Raises:
            Unavailable: it cannot be read again.
        """
        if self._is_stale():
            async with self._lock:
                if self._is_stale():
                    await self._read_again()
        return self._token.value

    def _is_stale(self) -> bool:
        return asyncio.get_running_loop().time() >= self._fresh_until

    async def _read_again(self) -> None:
        try:
            # At first a plugin can ask the user, who takes long to answer.
            async with asyncio.timeout(_READ_SECONDS if self._fresh_until else None):
                self._token = await self._read()
        except (ConfigError, OSError, ValueError) as error:
            raise Unavailable(f"cannot read the credentials: {error}") from error
        self._fresh_until = asyncio.get_running_loop().time() + self._token.lifetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """An API server, and how to reach it."""

    server: str
    """URL without a slash at its end."""
    trust: ssl.SSLContext
    authorization: Authorization
    server_name: str | None = None
    """The name in the server's certificate, if it is not the host of the URL."""
    proxy: str | None = None
    namespace: str = ""
    """The namespace of the kubeconfig's context, empty if it has none."""


class _Cluster(msgspec.Struct, frozen=True, rename="kebab"):
    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = None


class _User(msgspec.Struct, frozen=True, rename="kebab"):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(default=None, name="tokenFile")
    username: str | None = None
    password: str | None = None
    exec: Exec | None = None
    auth_provider: dict[str, object] | None = None


class _Context(msgspec.Struct, frozen=True):
    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class _Named(msgspec.Struct, frozen=True):
    """An entry of a list, with the one of the fields that the list is about."""

    name: str
    cluster: _Cluster = _Cluster()
    user: _User | None = None
    context: _Context = _Context()


class _File(msgspec.Struct, frozen=True, rename="kebab"):
    current_context: str | None = None
    contexts: tuple[_Named, ...] | None = None
    clusters: tuple[_Named, ...] | None = None
    users: tuple[_Named, ...] | None = None


async def find_access(kubeconfig: str | None = None, context: str | None = None) -> Access:
    """Return how to reach the cluster; arguments and errors are those of `client.connect`."""
    if not kubeconfig and not context and "KUBERNETES_SERVICE_HOST" in os.environ:
        try:
            return _in_pod(os.environ)
        except (OSError, KeyError) as error:
            raise ConfigError(
                f"cannot use the service account: {error}; mount its token or set a kubeconfig"
            ) from error
    paths = kubeconfig or _KUBECONFIG
    there = [path for path in map(_expanded, paths.split(os.pathsep)) if path.is_file()]
    if not there:
        raise ConfigError(f"no kubeconfig at {paths}: set its path, or run in a pod")
    try:
        access = _by_files(there, context)
        await access.authorization.header()
    except (msgspec.DecodeError, OSError, ValueError, ConfigError, Unavailable) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"cannot use kubeconfig {paths}: {reason}; fix it") from error
    return access


def _expanded(path: str) -> Path:
    return Path(path).expanduser()


def _in_pod(environment: Mapping[str, str]) -> Access:
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
    token = _ACCOUNT / "token"
    token.read_bytes()
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        trust=ssl.create_default_context(cafile=_ACCOUNT / "ca.crt"),
        authorization=Authorization(partial(_by_file, token)),
    )


def _by_files(paths: list[Path], wanted: str | None) -> Access:
    """Return what the context says; of several files, the first that has a name counts."""
    files = [(path, msgspec.yaml.decode(path.read_bytes(), type=_File)) for path in paths]
    currents = (file.current_context for _, file in files)
    name = wanted or next(filter(None, currents), None)
    if name is None:
        raise ConfigError("it has no current-context")
    contexts = {c.name: c.context for _, f in reversed(files) for c in f.contexts or ()}
    clusters = {c.name: (p, c.cluster) for p, f in reversed(files) for c in f.clusters or ()}
    users = {u.name: (p, u.user) for p, f in reversed(files) for u in f.users or ()}
    context = contexts.get(name)
    if context is None:
        raise ConfigError(f"it has no context {name}")
    if context.cluster not in clusters:
        raise ConfigError(f"it has no cluster {context.cluster}")
    at, cluster = clusters[context.cluster]
    if not cluster.server:
        raise ConfigError(f"its cluster {context.cluster} has no server")
    trust = _trust(cluster, at.parent)
    at, given = users.get(context.user, (at, None))
    user, folder = given or _User(), at.parent
    _present(
        trust,
        _content(user.client_certificate_data, user.client_certificate, folder),
        _content(user.client_key_data, user.client_key, folder),
    )
    if user.auth_provider:
        raise ConfigError("auth-provider is not supported: use a plugin, user.exec")
    return Access(
        server=cluster.server.rstrip("/"),
        trust=trust,
        authorization=Authorization(_reader(user, folder, trust)),
        server_name=cluster.tls_server_name,
        proxy=cluster.proxy_url,
        namespace=context.namespace or "",
    )


def _trust(cluster: _Cluster, folder: Path) -> ssl.SSLContext:
    data, file = cluster.certificate_authority_data, cluster.certificate_authority
    trust = ssl.create_default_context(
        cafile=folder / file if file and not data else None,
        cadata=base64.b64decode(data).decode() if data else None,
    )
    if cluster.insecure_skip_tls_verify:
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    return trust


def _present(trust: ssl.SSLContext, certificate: bytes | None, key: bytes | None) -> None:
    """Present a client certificate to the server."""
    if certificate is not None:
        with readable(certificate + b"\n" + (key or b"")) as path:
            trust.load_cert_chain(path)


def _content(data: str | None, file: str | None, folder: Path) -> bytes | None:
    if data:
        return base64.b64decode(data)
    return (folder / file).read_bytes() if file else None


def _reader(user: _User, folder: Path, trust: ssl.SSLContext) -> Reader:
    """Return how to read the token."""
    if user.exec is not None:
        return partial(_by_plugin, user.exec, trust)
    if user.token_file:
        return partial(_by_file, folder / user.token_file)
    if user.token:
        return partial(_fixed, f"Bearer {user.token}")
    if user.username is not None and user.password is not None:
        pair = f"{user.username}:{user.password}".encode()
        return partial(_fixed, f"Basic {base64.b64encode(pair).decode()}")
    return partial(_fixed, "")


async def _fixed(value: str) -> Token:
    return Token(value, inf)


async def _by_file(path: Path) -> Token:
    return Token(f"Bearer {_text(path)}")


def _text(path: Path) -> str:
    return path.read_text().strip()


async def _by_plugin(plugin: Exec, trust: ssl.SSLContext) -> Token:
    found = await exec_plugin.run(plugin)
    certificate, key = found.client_certificate_data, found.client_key_data
    if certificate and key:
        _present(trust, certificate.encode(), key.encode())
    elif not found.token:
        raise ConfigError(f"{plugin.command} printed neither a token nor a certificate")
    lifetime = found.lifetime(SystemClock().now(), REFRESH_SECONDS)
    return Token(f"Bearer {found.token}" if found.token else "", lifetime)
