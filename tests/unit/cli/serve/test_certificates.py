"""Certificates from files that another program replaces, and the CAs to trust."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sharder.cli.serve.certificates import ends_of, excluded_namespaces, follow_files
from sharder.config.load import load
from sharder.config.settings import Settings, WebhookServer
from sharder.controllers.certificates import POLL_SECONDS
from sharder.core.errors import ConfigError
from sharder.core.names import CONFIG_API_VERSION
from sharder.sdk.testing.fake_clock import FakeClock
from sharder.tls.bundle import CertificateBundle
from sharder.tls.issue import KeyPair, issue_serving, make_authority

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AUTHORITY = make_authority(NOW)


class Folder:
    """The files as kubelet mounts a Secret: links, behind a folder that is replaced at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        for name in ("tls.crt", "tls.key"):
            (path / name).symlink_to(Path("..data") / name)

    def put(self, pair: KeyPair) -> KeyPair:
        self.count += 1
        new = self.path / f"..{self.count}"
        new.mkdir()
        (new / "tls.crt").write_bytes(pair.certificate)
        (new / "tls.key").write_bytes(pair.key)
        (self.path / "..new").symlink_to(new.name)
        (self.path / "..new").rename(self.path / "..data")
        return pair


def issued() -> KeyPair:
    return issue_serving(AUTHORITY, names=["sharder"], now=NOW, validity=timedelta(days=90))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def files(folder: Folder) -> WebhookServer:
    folder.put(issued())
    return WebhookServer(cert_dir=str(folder.path))


async def test_files_that_were_replaced_are_in_use_within_five_seconds(
    folder: Folder, files: WebhookServer
) -> None:
    clock, used = FakeClock(), list[CertificateBundle]()

    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(follow_files(files, used.append, clock))
        await clock.advance(POLL_SECONDS)
        newer = folder.put(issued())
        await clock.advance(5)
        keeping.cancel()

    assert used[-1].serving == newer


async def test_files_that_do_not_serve_are_reported_once_and_the_next_ones_used(
    folder: Folder, files: WebhookServer, caplog: pytest.LogCaptureFixture
) -> None:
    clock, used = FakeClock(), list[KeyPair]()
    good, bad = issued(), KeyPair(certificate=issued().certificate, key=issued().key)

    def use(bundle: CertificateBundle) -> None:
        if bundle.serving == bad:
            raise ConfigError("they do not match")
        used.append(bundle.serving)

    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(follow_files(files, use, clock))
        folder.put(bad)
        await clock.advance(3 * POLL_SECONDS)
        folder.put(good)
        await clock.advance(POLL_SECONDS)
        keeping.cancel()

    assert [record.__dict__["error"] for record in caplog.records] == ["they do not match"]
    assert used == [good]


def test_the_end_of_an_authority_is_shown_if_it_is_ours() -> None:
    foreign, end = CertificateBundle(serving=issued()), NOW + timedelta(days=90)

    assert dict(ends_of(foreign)) == {"serving": end}
    assert [*dict(ends_of(replace(foreign, authority=AUTHORITY)))] == ["serving", "authority"]


def settings(client_config: str, *, leader_in: str = "sharding-system") -> Settings:
    header = f"apiVersion: {CONFIG_API_VERSION}\nkind: SharderConfig"
    election = f"leaderElection: {{resourceNamespace: {leader_in}}}"
    text = f"{header}\n{election}\nwebhook: {{config: {{clientConfig: {client_config}}}}}"
    return load(text.encode()).settings


@pytest.mark.parametrize(
    ("client_config", "pods_in", "excluded"),
    [
        pytest.param("{service: {namespace: ours}}", "ours", {"ours"}, id="the chart's"),
        pytest.param("{service: {namespace: front}}", "pods", {"front", "pods"}, id="all apart"),
        pytest.param("{service: {namespace: front}}", "", {"front"}, id="no pod"),
        pytest.param("{url: 'https://10.0.0.1'}", "pods", {"pods"}, id="no Service"),
        pytest.param("{url: 'https://10.0.0.1'}", "", set[str](), id="neither"),
    ],
)
def test_namespaces_in_which_anything_of_ours_is_are_never_sharded(
    client_config: str, pods_in: str, excluded: set[str]
) -> None:
    configured = settings(client_config, leader_in="lease-and-certificates")

    found = excluded_namespaces(configured, pods_in)

    assert found == {"kube-system", "lease-and-certificates", *excluded}
