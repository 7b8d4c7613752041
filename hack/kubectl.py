"""Run kubectl as a chosen user, without files in the home directory."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


class KubectlError(Exception):
    """kubectl failed; the message has the command and its standard error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """kubectl with the rights of one kubeconfig."""

    program: Path
    kubeconfig: Path
    cache: Path
    """The directory of kubectl's discovery cache, instead of ~/.kube/cache."""

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return its standard output.

        Raises:
            KubectlError: kubectl ended with a code other than 0.
        """
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "KUBECACHEDIR": str(self.cache),
        }
        done = subprocess.run(
            [self.program, *arguments],
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, manifest: Path | str) -> str:
        """Apply a file, a folder of files, or a text of YAML or JSON by server-side apply."""
        command = ("apply", "--server-side", "--force-conflicts", "-f")
        if isinstance(manifest, Path):
            return self.run(*command, str(manifest))
        return self.run(*command, "-", stdin=manifest)
