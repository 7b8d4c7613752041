"""Run kubectl as a chosen user, without files in the home directory."""

import os
import subprocess
from pathlib import Path


class KubectlError(Exception):
    """kubectl failed; the message has the command and its standard error."""


def kubectl(
    program: Path, *arguments: str, kubeconfig: Path, cache: Path, stdin: str | None = None
) -> str:
    """Run kubectl and return its standard output.

    Args:
        program: The program.
        arguments: Its arguments.
        kubeconfig: The kubeconfig with the rights.
        cache: The directory of kubectl's discovery cache, instead of ~/.kube/cache.
        stdin: Its standard input.

    Raises:
        KubectlError: kubectl ended with a code other than 0.
    """
    done = subprocess.run(
        [program, *arguments],
        env={**os.environ, "KUBECONFIG": str(kubeconfig), "KUBECACHEDIR": str(cache)},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout
