"""Call kubectl with chosen rights, and leave nothing of it in the home directory."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


class KubectlError(Exception):
    """kubectl failed; the message is the command and what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kubectl:
    """kubectl as one user."""

    program: Path
    kubeconfig: Path
    cache: Path
    """Where it keeps what it learnt about the server; ~/.kube otherwise."""

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """Return what kubectl prints.

        Raises:
            KubectlError: It ended with another code than 0.
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
        """Apply a file, a folder of files, or a text of YAML or JSON, on the server's side."""
        command = ("apply", "--server-side", "--force-conflicts", "-f")
        if isinstance(manifest, Path):
            return self.run(*command, str(manifest))
        return self.run(*command, "-", stdin=manifest)
