"""Facts about `sharder.kube.access`: kubeconfigs and accounts, by what a server gets to see."""

import asyncio
import base64
import json
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import dedent
from unittest.mock import Mock

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from hack.certificates import Authority
from sharder.core.api.meta import Json
from sharder.core.errors import ConfigError
from sharder.kube import access
from sharder.kube.client import connect
from tests.unit.kube.conftest import Script, config

PLUGIN = """
import json, os, pathlib, sys
runs = pathlib.Path(sys.argv[1])
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
print(json.dumps({**info, "status": json.loads(os.environ["STATUS"])}))
"""
EXEC = "client.authentication.k8s.io/v1"


def plugin(folder: Path, status: Json, code: str = PLUGIN, **more: Json) -> Json:
    return {
        "exec": {
            "apiVersion": EXEC,
            "command": sys.executable,
            "args": ["-c", code, str(folder / "runs")],
            "env": [{"name": "STATUS", "value": json.dumps(status)}],
            **more,
        }
    }


async def authorization(script: Script, kubeconfig: str) -> str | None:
    """Return what the server gets by a kubeconfig, after two requests."""
    script.then(b"")
    client = await connect(kubeconfig)
    for _ in range(2):
        await client.request("GET", "/x")
    await client.close()
    return script.asked[-1].headers.get("Authorization")


@pytest.mark.parametrize(
    ("user", "sent"),
    [
        ({"token": "abc"}, "Bearer abc"),
        ({"token": "abc", "tokenFile": "of-file"}, "Bearer in-a-file"),
        ({"username": "me", "password": "x:y"}, "Basic bWU6eDp5"),
        ({}, None),
        (None, None),
    ],
)
async def test_the_user_of_the_context_signs_in(
    script: Script, server: str, tmp_path: Path, user: Json, sent: str | None
) -> None:
    (tmp_path / "of-file").write_text("in-a-file\n")
    (tmp_path / "config").write_text(config(server, user))

    assert await authorization(script, str(tmp_path / "config")) == sent


async def test_a_plugin_is_run_once_while_its_token_is_valid(
    script: Script, server: str, tmp_path: Path
) -> None:
    end = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    user = plugin(tmp_path, {"token": "of-plugin", "expirationTimestamp": end})
    (tmp_path / "config").write_text(config(server, user))

    assert await authorization(script, str(tmp_path / "config")) == "Bearer of-plugin"
    assert (tmp_path / "runs").read_text() == "x"


async def test_all_that_wait_for_credentials_share_one_read() -> None:
    read = Mock(side_effect=lambda: asyncio.sleep(0, access.Token("abc")))
    header = access.Authorization(read).header

    assert set(await asyncio.gather(header(), header())) == {"abc"}
    assert read.call_count == 1


@pytest.mark.parametrize(
    ("code", "more", "reason"),
    [
        ("raise SystemExit(3)", {}, "failed with exit code 3"),
        ("print('{')", {}, "printed no ExecCredential"),
        (PLUGIN, {}, "neither a token nor a certificate"),
        (PLUGIN.replace("**info", "**info, 'apiVersion': 'v9'"), {}, "printed version v9, not"),
        (
            PLUGIN,
            {"command": "/no/such", "installHint": "get it at x"},
            "cannot run /no/such: No such file or directory; get it at x",
        ),
    ],
)
async def test_a_plugin_that_fails_is_reported(
    tmp_path: Path, code: str, more: dict[str, Json], reason: str
) -> None:
    (tmp_path / "config").write_text(config("http://x", plugin(tmp_path, {}, code, **more)))

    with pytest.raises(ConfigError, match=reason):
        await connect(str(tmp_path / "config"))


async def test_of_several_files_the_first_counts_and_paths_are_those_of_each_file(
    script: Script, server: str, tmp_path: Path
) -> None:
    for name, user in (("one", {"tokenFile": "token"}), ("two", {"token": "not this"})):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config").write_text(config(server, user, users=[]))
    parts = config(server, {"tokenFile": "token"}, contexts=[], clusters=[])
    (tmp_path / "two" / "config").write_text(parts)
    (tmp_path / "two" / "token").write_text("of two")
    files = [tmp_path / "missing", tmp_path / "one" / "config", tmp_path / "two" / "config"]

    assert await authorization(script, ":".join(map(str, files))) == "Bearer of two"


async def test_another_context_can_be_chosen(script: Script, server: str, tmp_path: Path) -> None:
    there: Json = [
        {"name": name, "context": {"cluster": "c", "user": "u", "namespace": name}}
        for name in ("here", "there")
    ]
    (tmp_path / "config").write_text(config(server, {}, contexts=there))

    client = await connect(str(tmp_path / "config"), "there")

    assert client.namespace == "there"
    await client.close()


@pytest.mark.parametrize("of", ["data", "files", "plugin"])
async def test_a_client_certificate_is_presented(script: Script, tmp_path: Path, of: str) -> None:
    authority = Authority("unit tests")
    server, own = (authority.issue("localhost", "127.0.0.1"), authority.issue(user="me"))
    for name, data in (("crt", own.certificate), ("key", own.key), ("ca", authority.certificate)):
        (tmp_path / name).write_bytes(data)
    user: Json = {"client-certificate": "crt", "client-key": "key"}
    if of == "data":
        user = {
            "client-certificate-data": base64.b64encode(own.certificate).decode(),
            "client-key-data": base64.b64encode(own.key).decode(),
        }
    if of == "plugin":
        pair = {
            "clientCertificateData": own.certificate.decode(),
            "clientKeyData": own.key.decode(),
        }
        user = plugin(tmp_path, pair)
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "ca")
    trust.verify_mode = ssl.CERT_REQUIRED
    (tmp_path / "pair").write_bytes(server.certificate + server.key)
    trust.load_cert_chain(tmp_path / "pair")
    script.then(b"welcome")
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", script.handle)
    listening = TestServer(app)
    await listening.start_server(ssl=trust)
    url = f"https://localhost:{listening.port}"
    (tmp_path / "config").write_text(config(url, user, {"certificate-authority": "ca"}))

    client = await connect(str(tmp_path / "config"))

    assert await client.request("GET", "/x") == b"welcome"
    await client.close()
    await listening.close()


async def test_the_account_of_a_pod_signs_in_with_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("of-pod\n")
    (tmp_path / "ca.crt").write_bytes(Authority("unit tests").certificate)
    monkeypatch.setattr(access, "_ACCOUNT", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")

    found = await access.find_access()

    assert found.server == "https://[fd00::1]:443"
    assert await found.authorization.header() == "Bearer of-pod"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"clusters": []}, "it has no cluster c"),
        ({"clusters": [{"name": "c", "cluster": {}}]}, "its cluster c has no server"),
        ({"users": [{"name": "u", "user": {"client-key": 1}}]}, "client-key"),
        (
            {"users": [{"name": "u", "user": {"auth-provider": {"name": "oidc"}}}]},
            "auth-provider is not supported",
        ),
        ({"users": [{"name": "u", "user": {"client-certificate": "none"}}]}, "none"),
    ],
)
async def test_what_is_wrong_in_a_kubeconfig_is_named(
    tmp_path: Path, changes: dict[str, Json], reason: str
) -> None:
    (tmp_path / "config").write_text(dedent(config("http://x", {}, **changes)))

    with pytest.raises(ConfigError, match=reason):
        await connect(str(tmp_path / "config"))
