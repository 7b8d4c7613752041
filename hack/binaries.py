"""Find the programs that the tests need, or build them with Go.

`python3 -m hack.binaries NAME` prints a path; progress goes to standard error:

    control-plane         the directory of etcd, kube-apiserver and kubectl
    control-plane-1.30    the same directory for an older Kubernetes, see hack/controlplanes
    controller-manager    the program, for the demo and tests of `sharder proxy`
    helm, helm3, promtool the program
    goshard, libshard     one of the two shards in Go, for the compatibility tests; the second is
                          the operator of the benchmarks too
    generator             the load generator of the benchmarks

A path comes from the environment variable of the programs, else from the cache, else from a
build, which takes its sources from the Go module proxy.  A build writes to the cache directory
only, with the caches of Go, and removes everything but the programs at its end.

The module imports the standard library only: it runs before there is a virtual environment.
"""

import argparse
import fcntl
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


class BinariesError(Exception):
    """The programs cannot be found or built; the message is one line and says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """The programs that are built from one Go module."""

    name: str
    module: Path
    """The folder of go.mod and go.sum, and of the sources if `package` is `.`."""
    package: str = "tool"
    """The argument of `go build`: `tool` for all tools of go.mod, `.` for the module itself."""
    tags: str = ""
    """Build tags, separated by commas."""
    programs: tuple[str, ...]
    version_module: str = ""
    """The required module whose version is the toolset's version; empty for v0.0."""
    version_variables: Mapping[str, str] = field(default_factory=dict)
    """Values by linker variable; a value can contain `{version}`, `{major}` and `{minor}`."""
    environment: str
    """The environment variable with the path of the program to use instead of a build.

    For several programs, the path of their directory.
    """

    @property
    def version(self) -> str:
        """The version in go.mod, such as `v1.36.3`."""
        if not self.version_module:
            return "v0.0"
        pattern = rf"^\s*{re.escape(self.version_module)} (v\S+)"
        match = re.search(pattern, (self.module / "go.mod").read_text(), re.MULTILINE)
        if match is None:
            raise BinariesError(f"{self.module / 'go.mod'} requires no {self.version_module}")
        return match[1]

    @property
    def cached(self) -> Path:
        """The cache folder of the programs; its name has a digest of sources and platform."""
        digest = hashlib.sha256(f"{platform.system()} {platform.machine()}".encode())
        for file in (*sorted(self.module.glob("go.*")), *sorted(self.module.glob("*.go"))):
            digest.update(file.read_bytes())
        return cache_directory() / f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"

    @property
    def linker_flags(self) -> str:
        """The value of `-ldflags`: without the version, kubectl fails to parse its own version."""
        major, minor = self.version.removeprefix("v").split(".")[:2]
        values = {"version": self.version, "major": major, "minor": minor}
        settings = (f"-X {k}={v.format(**values)}" for k, v in self.version_variables.items())
        return " ".join(["-s", "-w", *settings])


CONTROL_PLANE = Toolset(
    name="control-plane",
    module=ROOT / "hack/controlplane",
    programs=("etcd", "kube-apiserver", "kubectl"),
    version_module="k8s.io/kubernetes",
    version_variables={
        "k8s.io/component-base/version.gitVersion": "{version}",
        "k8s.io/component-base/version.gitMajor": "{major}",
        "k8s.io/component-base/version.gitMinor": "{minor}",
    },
    environment="KUBEBUILDER_ASSETS",
)
OLDER_CONTROL_PLANES = tuple(
    replace(CONTROL_PLANE, name=f"control-plane-{module.name}", module=module)
    for module in sorted((ROOT / "hack/controlplanes").iterdir())
)
CONTROLLER_MANAGER = replace(
    CONTROL_PLANE,
    name="controller-manager",
    module=ROOT / "hack/controllermanager",
    programs=("kube-controller-manager",),
    environment="KUBE_CONTROLLER_MANAGER",
)
HELM = Toolset(
    name="helm",
    module=ROOT / "hack/helm",
    programs=("helm",),
    version_module="helm.sh/helm/v4",
    version_variables={"helm.sh/helm/v4/internal/version.version": "{version}"},
    environment="HELM",
)
HELM3 = replace(
    HELM,
    name="helm3",
    module=ROOT / "hack/helm3",
    version_module="helm.sh/helm/v3",
    version_variables={"helm.sh/helm/v3/internal/version.version": "{version}"},
    environment="HELM3",
)
PROMTOOL = Toolset(
    name="promtool",
    module=ROOT / "hack/promtool",
    tags="remove_all_sd",  # without service discovery, which has clients of some thirty clouds
    programs=("promtool",),
    version_module="github.com/prometheus/prometheus",
    version_variables={"github.com/prometheus/common/version.Version": "{version}"},
    environment="PROMTOOL",
)
GOSHARD = Toolset(
    name="goshard",
    module=ROOT / "tests/compat/goshard",
    package=".",
    programs=("goshard",),
    version_module="k8s.io/client-go",
    environment="GOSHARD",
)
LIBSHARD = Toolset(
    name="libshard",
    module=ROOT / "tests/compat/libshard",
    package=".",
    programs=("libshard",),
    version_module="github.com/timebertt/kubernetes-controller-sharding",
    environment="LIBSHARD",
)
GENERATOR = Toolset(
    name="generator",
    module=ROOT / "hack/bench/generator",
    package=".",
    programs=("generator",),
    environment="GENERATOR",
)


def cache_directory() -> Path:
    """Return the cache directory; outside the checkout, nothing else is left behind."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home).absolute() / "sharder"


def find(tools: Toolset) -> Path:
    """Return the path of the program, or the directory of several; build them if necessary.

    Raises:
        BinariesError: What the environment names has no such programs, or the build failed.
    """
    single = len(tools.programs) == 1
    variable, named = tools.environment, os.environ.get(tools.environment)
    if not named or tools in OLDER_CONTROL_PLANES:
        built = build_once(tools)
        return built / tools.programs[0] if single else built
    paths = [Path(named)] if single else [Path(named) / name for name in tools.programs]
    missing = [path.name for path in paths if not (path.is_file() and os.access(path, os.X_OK))]
    if missing and single:
        raise BinariesError(f"{variable}={named} is no program: name one, or unset it to build it")
    if missing:
        raise BinariesError(
            f"{variable}={named} holds no {', '.join(missing)}: "
            "name a directory that does, or unset it and install Go to build them"
        )
    return Path(named).absolute()


control_plane = partial(find, CONTROL_PLANE)
controller_manager = partial(find, CONTROLLER_MANAGER)
helm = partial(find, HELM)
helm3 = partial(find, HELM3)
promtool = partial(find, PROMTOOL)
goshard = partial(find, GOSHARD)
libshard = partial(find, LIBSHARD)
generator = partial(find, GENERATOR)


def build_once(tools: Toolset) -> Path:
    """Return the cache folder of `tools`; build the programs if the folder does not exist.

    A file lock excludes concurrent builds, and one rename makes the folder appear, so an existing
    folder is complete.  An interrupted build keeps its Go caches: the next build continues it.

    Raises:
        BinariesError: The build failed.
    """
    if tools.cached.is_dir():
        return tools.cached
    cache_directory().mkdir(parents=True, exist_ok=True)
    with _locked(cache_directory() / f"{tools.name}.lock"):
        if not tools.cached.is_dir():
            workspace = cache_directory() / f"{tools.name}.build"
            _build(tools, workspace).rename(tools.cached)
            shutil.rmtree(workspace, ignore_errors=True)
            print(f"built into {tools.cached}", file=sys.stderr)
    return tools.cached


def _build(tools: Toolset, workspace: Path) -> Path:
    """Build `tools` into a new folder of `workspace`, beside Go's caches; return the folder.

    Each build needs a new folder: after a killed build, its Go tool can still run and write.
    """
    (workspace / "tmp").mkdir(parents=True, exist_ok=True)
    target = Path(tempfile.mkdtemp(prefix="bin-", dir=workspace))
    target.chmod(0o755)
    go = shutil.which("go")
    if go is None:
        raise BinariesError(f"cannot build {tools.name} without Go: {_ways_out(tools)}")
    print(f"building {tools.name} {tools.version}, for some minutes", file=sys.stderr, flush=True)
    flags = ("-trimpath", "-tags", tools.tags, "-ldflags", tools.linker_flags)
    command = [go, "build", "-o", f"{target}/", *flags, tools.package]
    done = subprocess.run(
        command, cwd=tools.module, env=_environment(go, workspace), stdout=sys.stderr, check=False
    )
    if done.returncode:
        raise BinariesError(f"cannot build {tools.name}, see above: {_ways_out(tools)}")
    if (target / "server").exists():
        # Go names a program after its folder; the folder of etcd is go.etcd.io/etcd/server.
        (target / "server").rename(target / "etcd")
    return target


def _environment(go: str, workspace: Path) -> Mapping[str, str]:
    """Return the user's environment, but with all of Go's folders below `workspace`."""
    asked = subprocess.run([go, "env", "GOENV"], capture_output=True, text=True, check=False)
    return {
        **os.environ,
        "GOENV": asked.stdout.strip(),
        "XDG_CONFIG_HOME": str(workspace / "config"),  # for Go's telemetry counters
        "CGO_ENABLED": "0",  # no C compiler needed
        "GOFLAGS": "-buildvcs=false -modcacherw",
        "GOPATH": str(workspace / "go"),
        "GOMODCACHE": str(workspace / "go" / "modules"),
        "GOCACHE": str(workspace / "go" / "build"),
        "GOTMPDIR": str(workspace / "tmp"),
    }


def _ways_out(tools: Toolset) -> str:
    kind = "directory" if len(tools.programs) > 1 else "path"
    what = f"{tools.environment} to the {kind} of {', '.join(tools.programs)}"
    return f"install Go (https://go.dev/dl) or set {what}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another build is under way, waiting for it", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


TOOLSETS = (
    *(CONTROL_PLANE, *OLDER_CONTROL_PLANES, CONTROLLER_MANAGER, HELM, HELM3, PROMTOOL),
    *(GOSHARD, LIBSHARD, GENERATOR),
)


def main() -> int:
    """Print the path of the requested programs; return 1 after an error, 130 if interrupted."""
    parser = argparse.ArgumentParser(
        prog="python3 -m hack.binaries",
        description="Find or build programs, print where they are.",
    )
    known = {tools.name: tools for tools in TOOLSETS}
    parser.add_argument("tools", choices=known)
    wanted = known[parser.parse_args().tools]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print(find(wanted))
    except BinariesError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
