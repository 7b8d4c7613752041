"""Who may read the metrics of a running sharder: the API server decides, and all of it is TLS."""

import asyncio
import base64
import http.client
import json
import re
import shlex
import socket
import ssl
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from hack.control_plane import ControlPlane
from hack.playground import SYSTEM, Playground
from sharder.core.api.cluster import User
from sharder.core.names import ROTATE_ANNOTATION
from sharder.kube.client import connect
from sharder.kube.reviews import KubeReviews
from tests.support.documents import read
from tests.support.eventually import eventually
from webhook.metrics_auth import BELIEVED_SECONDS

INSTALL = Path("docs/install.md")
READER = "sharder-metrics-reader"
SECRET = ("secret", "sharder-certificates", "--namespace", SYSTEM)
WITHIN = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: str


class Bench:
    """A sharder with the chart's rights, and accounts that scrape it."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.playground = Playground(plane)

    def start(self) -> None:
        self.playground.install()
        self.playground.start_sharder(gracefulShutDown="0s", logging={"level": "debug"})
        url = urlsplit(self.playground.metrics_url("sharder-0"))
        self.address = (str(url.hostname), url.port or 0)

    async def until_ready(self) -> None:
        async def is_ready() -> bool:
            return await asyncio.to_thread(self.playground.is_ready)

        await eventually(is_ready, within=WITHIN)
        self.trust = self.playground.trust()

    def account(self) -> str:
        """Create a ServiceAccount without any rights and return its name."""
        name = f"scraper-{uuid.uuid4().hex[:8]}"
        self.plane.kubectl("create", "serviceaccount", name, "--namespace", SYSTEM)
        return name

    def token(self, account: str) -> str:
        return self.plane.kubectl("create", "token", account, "--namespace", SYSTEM).strip()

    def grant(self, account: str, role: str = READER) -> None:
        who = f"--serviceaccount={SYSTEM}:{account}"
        self.plane.kubectl("create", "clusterrolebinding", account, f"--clusterrole={role}", who)

    def withdraw(self, account: str) -> None:
        self.plane.kubectl("delete", "clusterrolebinding", account)

    async def scrape(self, authorization: str = "", path: str = "") -> Scrape:
        return await asyncio.to_thread(self._scrape, authorization, path)

    def _scrape(self, authorization: str, path: str) -> Scrape:
        host, port = self.address
        connection = http.client.HTTPSConnection(host, port, timeout=20, context=self.trust)
        try:
            headers = {"Authorization": authorization} if authorization else {}
            connection.request("GET", path or "/metrics", headers=headers)
            answer = connection.getresponse()
            return Scrape(
                status=answer.status,
                headers={name.lower(): value for name, value in answer.getheaders()},
                body=answer.read().decode(),
            )
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=20)

    def scrape_in_clear(self, authorization: str) -> bytes:
        """Return whatever comes back without TLS."""
        lines = ("GET /metrics HTTP/1.1", "Host: sharder", f"Authorization: {authorization}")
        received = b""
        with self.connect() as connection, suppress(ConnectionError):
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            while chunk := connection.recv(65536):
                received += chunk
        return received

    def certificate(self) -> str:
        """Return what is shown, in PEM."""
        return ssl.get_server_certificate(self.address)

    async def until(self, authorization: str, status: int) -> Scrape:
        """Scrape until this comes back: rights are known to the API server a little later."""

        async def answered() -> Scrape:
            scrape = await self.scrape(authorization)
            assert scrape.status == status, scrape
            return scrape

        return await eventually(answered, within=BELIEVED_SECONDS + WITHIN)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with ControlPlane() as plane:
        bench = Bench(plane)
        bench.start()
        asyncio.run(bench.until_ready())
        yield bench


async def test_without_credentials_a_scrape_is_unauthorized(bench: Bench) -> None:
    scrape = await bench.scrape()

    assert (scrape.status, scrape.headers["www-authenticate"]) == (401, "Bearer")
    assert "controller_sharding" not in scrape.body


@pytest.mark.parametrize(
    "authorization", ["Bearer made-up", "Basic c2NyYXBlcjpzZWNyZXQ=", "Bearer a.b.c"]
)
async def test_with_an_invalid_token_it_is_unauthorized(bench: Bench, authorization: str) -> None:
    assert (await bench.scrape(authorization)).status == 401


async def test_without_permission_it_is_forbidden(bench: Bench) -> None:
    token = bench.token(bench.account())

    scrape = await bench.scrape(f"Bearer {token}")

    assert scrape.status == 403
    assert scrape.body == (
        "the token's user is not allowed to get the nonResourceURL /metrics; bind a "
        "ClusterRole that grants it\n"
    )


async def test_with_permission_it_shows_the_metrics(bench: Bench) -> None:
    account = bench.account()
    bench.grant(account)

    scrape = await bench.until(f"Bearer {bench.token(account)}", 200)

    assert scrape.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "controller_sharding_build_info{" in scrape.body


async def test_without_tls_no_client_reads(bench: Bench) -> None:
    account = bench.account()
    bench.grant(account)
    authorization = f"Bearer {bench.token(account)}"
    await bench.until(authorization, 200)

    received = await asyncio.to_thread(bench.scrape_in_clear, authorization)

    assert b"HTTP/" not in received
    assert b"controller_sharding" not in received


async def test_clients_that_say_nothing_are_cut_off_and_keep_no_other_waiting(
    bench: Bench,
) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(bench.connect()) for _ in range(100)]

        assert (await bench.scrape()).status == 401
        assert [await asyncio.to_thread(each.recv, 1) for each in silent] == 100 * [b""]


async def test_a_new_certificate_is_shown_without_a_restart(bench: Bench) -> None:
    before = bench.certificate()
    bench.plane.kubectl("annotate", *SECRET, f"{ROTATE_ANNOTATION}=serving")

    async def another() -> str:
        shown = await asyncio.to_thread(bench.certificate)
        assert shown != before
        return shown

    shown = await eventually(another, within=WITHIN)

    kept = bench.plane.kubectl("get", *SECRET, "--output", r"jsonpath={.data.tls\.crt}")
    assert shown == base64.b64decode(kept).decode()
    assert (await bench.scrape()).status == 401


async def test_the_documented_authority_is_what_a_scraper_verifies_by(bench: Bench) -> None:
    (command,) = re.findall(r"^kubectl (get validating.+) \| base64", read(INSTALL), re.MULTILINE)

    async def told() -> str:
        return await asyncio.to_thread(bench.plane.kubectl, *shlex.split(command))

    ca_bundle = await eventually(told, within=WITHIN)

    trust = ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode())
    with trust.wrap_socket(bench.connect(), server_hostname=bench.address[0]) as connection:
        assert connection.getpeercert()


async def test_permission_for_another_path_does_not_count(bench: Bench) -> None:
    account, role = bench.account(), f"other-{uuid.uuid4().hex[:8]}"
    url = "--non-resource-url=/metrics/slis"
    bench.plane.kubectl("create", "clusterrole", role, "--verb=get", url)
    bench.grant(account, role)

    assert (await bench.scrape(f"Bearer {bench.token(account)}")).status == 403


async def test_permission_that_is_withdrawn_ends_soon(bench: Bench) -> None:
    account = bench.account()
    bench.grant(account)
    authorization = f"Bearer {bench.token(account)}"
    await bench.until(authorization, 200)

    bench.withdraw(account)

    await bench.until(authorization, 403)


async def test_health_needs_no_credentials(bench: Bench) -> None:
    assert bench.playground.is_ready()


async def test_a_deleted_pod_can_no_longer_read(bench: Bench) -> None:
    account = bench.account()
    bench.grant(account)
    containers = [{"name": "main", "image": "none"}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": account, "namespace": SYSTEM},
        "spec": {"serviceAccountName": account, "containers": containers},
    }
    bench.plane.apply(json.dumps(pod))
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={account}")
    create = ("create", "token", account, "--namespace", SYSTEM, *bound)
    authorization = f"Bearer {bench.plane.kubectl(*create).strip()}"
    await bench.until(authorization, 200)

    at_once = ("--force", "--grace-period=0", "--wait=false")
    bench.plane.kubectl("delete", "pod", account, "--namespace", SYSTEM, *at_once)

    await bench.until(authorization, 401)


async def test_the_log_has_no_token(bench: Bench) -> None:
    account = bench.account()
    bench.grant(account)
    token = bench.token(account)
    await bench.until(f"Bearer {token}", 200)
    await bench.scrape("Bearer made-up-by-mallory")

    log = bench.playground.log("sharder-0")

    assert token not in log
    assert "made-up-by-mallory" not in log


async def test_the_reviews_return_the_user_of_a_token_and_its_rights(bench: Bench) -> None:
    account = bench.account()
    bench.grant(account)
    token = bench.token(account)
    client = await connect(str(bench.plane.admin_kubeconfig))
    try:
        reviews = KubeReviews(client)
        user = await reviews.identify(token)
        unknown = await reviews.identify("made-up")
        assert user is not None
        judged = [
            await reviews.may_read_metrics(user),
            await reviews.may_read_metrics(User(username="another")),
        ]
    finally:
        await client.close()

    assert user.username == f"system:serviceaccount:{SYSTEM}:{account}"
    assert "system:authenticated" in user.groups
    assert (unknown, judged) == (None, [True, False])


async def test_a_sharder_without_the_right_to_review_shows_no_metrics(
    bench: Bench, tmp_path: Path
) -> None:
    account = bench.account()
    bench.grant(account)
    token = bench.token(account)
    role = json.loads(bench.plane.kubectl("get", "clusterrole", "sharder", "-o", "json"))
    rules = [r for r in role["rules"] if "tokenreviews" not in r["resources"]]
    file = tmp_path / "rules.json"
    file.write_text(json.dumps({"rules": rules}))
    patch = ("patch", "clusterrole", "sharder", "--type=merge", "--patch-file", str(file))
    bench.plane.kubectl(*patch)
    try:
        await bench.until(f"Bearer {token}", 500)
    finally:
        file.write_text(json.dumps({"rules": role["rules"]}))
        bench.plane.kubectl(*patch)

    assert "grant it in a Role or ClusterRole" in bench.playground.log("sharder-0")
    await bench.until(f"Bearer {token}", 200)


async def test_without_an_api_server_no_client_reads(bench: Bench) -> None:
    account = bench.account()
    bench.grant(account)
    authorization = f"Bearer {bench.token(account)}"
    await bench.until(authorization, 200)

    await asyncio.to_thread(bench.plane.stop_apiserver)
    try:
        refused = await bench.until(authorization, 500)
    finally:
        await asyncio.to_thread(bench.plane.start_apiserver)

    assert "controller_sharding" not in refused.body
    assert "cannot review tokens" in bench.playground.log("sharder-0")
    await bench.until(authorization, 200)
