"""What a container runtime makes: processes that see the network and the files of a pod alone.

The network namespace of a pod is linked to this host by a pair of interfaces that ends with it.
Nothing is forwarded: a pod reaches the API server, and only this host reaches the pod.
"""

import asyncio
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from hack.binaries import controller_manager
from hack.control_plane import SERVICE_ADDRESS
from hack.playground import ROOT
from hack.supervisor import Supervisor
from tests.support.eventually import eventually

PREFIX: Final = Path(sys.prefix).resolve()
_LINK: Final = """
ip link set lo up
ip link add eth0 type veth peer name {link} netns {pid}
ip address add {address} peer {host} dev eth0
ip link set eth0 up
nsenter --net=/proc/{pid}/ns/net ip address add {host} peer {address} dev {link}
nsenter --net=/proc/{pid}/ns/net ip link set {link} up
echo linked
exec sleep infinity
"""
_numbers: Final = count(1)


class Image(NamedTuple):
    """What runs in place of an image, since nothing can be pulled: a program of this host."""

    entrypoint: Path
    user: int
    folders: Sequence[Path]
    """Whatever its containers see besides Python."""
    modules: str = ""
    """Where Python looks for modules before its environment."""

    @property
    def variables(self) -> dict[str, str]:
        """Return its environment, as from the Dockerfile and a container runtime."""
        return {
            "PATH": f"{self.entrypoint.parent}:/usr/bin:/usr/sbin",
            "HOME": "/",
            "PYTHONPATH": self.modules,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }


def image_of(name: str) -> Image | None:
    """Return the image of this name, with any tag; None for one that is not there.

    An image at localhost is the virtual environment with its path.
    """
    registry, slash, rest = name.partition("/")
    path = slash + rest.partition(":")[0]
    match registry, path:
        case "registry.example.com", "/sharder":
            return Image(PREFIX / "bin/sharder", 65532, (ROOT, PREFIX), str(ROOT))
        case "registry.k8s.io", "/kube-controller-manager":
            return Image(controller_manager(), 65534, (controller_manager().parent,))
        case "localhost", _:
            return Image(Path(path, "bin/sharder"), 65532, (Path(path),))
        case _:
            return None


class Mount(NamedTuple):
    """A directory of this host, where a container sees it."""

    source: Path
    target: str
    is_read_only: bool = False


def require_rights() -> None:
    """Fail, and say what is missing, if this process cannot make namespaces and interfaces."""
    attempt = ("unshare", "--net", "--mount", "ip", "link", "add", "type", "veth")
    done = subprocess.run(attempt, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (
        "pods as processes need Linux, root with CAP_NET_ADMIN and CAP_SYS_ADMIN, and "
        f"the programs ip, unshare, nsenter and setpriv: {done.stderr}"
    )


class Sandbox:
    """The network of a pod, and the processes in it."""

    def __init__(self, supervisor: Supervisor, pod: str) -> None:
        number = next(_numbers)
        assert number < 255, "no address is used twice, and all were used"
        self.address = f"198.19.{os.getpid() % 256}.{number}"
        self._pod, self._supervisor = pod, supervisor
        self._link = f"pod{os.getpid()}-{number}"

    async def open(self) -> None:
        """Make the network."""
        script = _LINK.format(
            link=self._link, pid=os.getpid(), address=self.address, host=SERVICE_ADDRESS
        )
        self._supervisor.run(self._pod, ["unshare", "--net", "sh", "-ec", script])

        async def is_linked() -> bool:
            return "linked" in self._supervisor.log(self._pod).read_text()

        await eventually(is_linked, within=30)

    def close(self) -> None:
        """Remove the network."""
        self._supervisor.stop(self._pod, signal.SIGKILL)

    def run(
        self,
        name: str,
        command: Sequence[str],
        root: Path,
        *,
        mounts: Sequence[Mount],
        is_read_only: bool,
        user: int,
        environment: Mapping[str, str],
    ) -> None:
        """Start a process.

        Args:
            name: Distinguishes it from others, and its log.
            command: What runs; its program is of the image.
            root: A new directory: the root of what the process sees.
            mounts: Whatever else it sees, but for Python.
            is_read_only: Whether it can write to `mounts` alone.
            user: Its user; it has no capabilities.
            environment: All its variables.
        """
        (root / "etc").mkdir(parents=True)
        (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{self.address} {self._pod}\n")
        for link in ("bin", "lib", "lib64", "sbin"):
            (root / link).symlink_to(f"usr/{link}")
        places = (Path("/usr"), Path(sys.base_prefix))
        host = [*(Mount(place, str(place), is_read_only=True) for place in places)]
        host += [Mount(Path(place), place) for place in ("/dev", "/proc")]
        script = [
            f"hostname {self._pod}",
            f"mount -o bind {root} {root}",
            *(_bound(root, mount) for mount in (*sorted(mounts, key=_target), *host)),
            *([f"mount -o remount,bind,ro {root}"] if is_read_only else []),
            f"exec chroot {root} setpriv --reuid={user} --regid={user} --clear-groups "
            f"--no-new-privs --bounding-set=-all --inh-caps=-all {shlex.join(command)}",
        ]
        enter = ("nsenter", f"--net=/proc/{self._supervisor.pid_of(self._pod)}/ns/net")
        separate = ("unshare", "--mount", "--uts", "sh", "-ec", "\n".join(script))
        self._supervisor.run(f"{self._pod}.{name}", [*enter, *separate], environment)

    def exit_code(self, name: str) -> int | None:
        """Return the exit code of a process, None while it runs."""
        return self._supervisor.exit_code(f"{self._pod}.{name}")

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process, if it runs."""
        self._supervisor.send(f"{self._pod}.{name}", number)

    async def execute(self, name: str, command: Sequence[str]) -> bool:
        """Run a command beside a process, and return whether it succeeded."""
        target = f"--target={self._supervisor.pid_of(f'{self._pod}.{name}')}"
        enter = ("nsenter", target, "--mount", "--net", "--uts", "--root", "--wd")
        process = await asyncio.create_subprocess_exec(*enter, *command)
        try:
            return await process.wait() == 0
        finally:
            with suppress(ProcessLookupError):
                process.kill()


def _target(mount: Mount) -> str:
    return mount.target


def _bound(root: Path, mount: Mount) -> str:
    at = shlex.quote(f"{root}{mount.target}")
    return f"mkdir -p {at}; mount -o bind{',ro' * mount.is_read_only} {mount.source} {at}"
