"""The controller of docs/shard-your-controller.md as a process, on a real API server.

The test plays the sharder: it writes the owner label itself.
"""

import asyncio
import os
import re
import sys
from pathlib import Path

from hack.control_plane import ControlPlane
from sharder.core.api.meta import Json, PartialObject
from sharder.core.names import ObjectRef, RingName, owner_label
from sharder.kube.client import connect
from sharder.kube.store import KubeStore
from sharder.kube.typed_stores import SECRETS, leases
from tests.support.eventually import eventually
from tests.support.users import CONFIGMAPS, WITHIN

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples/checksum-controller/deploy"
ACCOUNT = "checksum-controller"
"""That of the example, and its namespace."""


class ConfigMap(PartialObject, frozen=True, kw_only=True):
    data: dict[str, str] | None = None


async def test_the_controller_in_the_documentation_works(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    control_plane.apply(DEPLOY / "namespace.yaml")
    control_plane.apply(DEPLOY / "rbac.yaml")
    kubeconfig = control_plane.token_kubeconfig(ACCOUNT, ACCOUNT)
    guide = (ROOT / "docs" / "shard-your-controller.md").read_text()
    program = tmp_path / "snippet.py"
    program.write_text(re.split(r"```python\n|```\n", guide[guide.index("```python") :])[1])
    admin = await connect(str(control_plane.admin_kubeconfig))
    settings = {
        "SHARD_NAME": "snippet", "SHARD_NAMESPACE": ACCOUNT, "KUBECONFIG": str(kubeconfig)
    }  # fmt: skip
    shard = await asyncio.create_subprocess_exec(
        sys.executable, str(program), env={**os.environ, **settings}
    )

    async def holds_its_lease() -> bool:
        lease = await leases(admin).get(ObjectRef(ACCOUNT, "snippet"))
        return lease.spec.holder_identity == "snippet"

    async def has_written() -> bool:
        made = await KubeStore(admin, ConfigMap, CONFIGMAPS).get(ObjectRef("default", "own-keys"))
        return made.data == {"key": "present"}

    try:
        await eventually(holds_its_lease, within=WITHIN)
        body: Json = {
            "metadata": {"name": "own", "labels": {owner_label(RingName("my-ring")): "snippet"}},
            "data": {"key": "djE="},
        }
        await KubeStore(admin, PartialObject, SECRETS).create("default", body)
        await eventually(has_written, within=WITHIN)
    finally:
        shard.kill()
        await shard.wait()
        await admin.close()
