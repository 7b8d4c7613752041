"""The files of a release do the main job: first those of 0.2.0, then those of the last commit.

Users write while the sharder is upgraded and rolled back; the shards are of 0.2.0 all the time.
"""

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from hack import binaries
from hack.control_plane import ControlPlane
from hack.playground import ROOT, SYSTEM
from tests.e2e.writers import WriteLog
from tests.history.judging import Verdict, judge
from tests.long.installed_chart import FENCED, FILES, KEPT, OBJECTS, RING, Story, plane_of, telling

OLD: Final = "67e76868"
"""The commit of 0.2.0; a clone without it needs `git fetch --unshallow`."""
EXTRAS: Final = {
    "": "sharder.sdk.testing, sharder.strategy, yaml",
    "[metrics]": "sharder.sdk",
    "[cli]": "sharder.cli, sharder.console",
    "[kopf]": "sharder.kopf",
    "[server]": "sharder.cli.serve.service, uvloop",
}
"""What can be imported with an extra alone; a kubeconfig is YAML."""
INSTALLED: Final = f"HELM install sharder {{}} -n {SYSTEM} --create-namespace --values old.yaml"
UPGRADED: Final = f"HELM upgrade sharder {{}} -n {SYSTEM} --values new.yaml"
BACK: Final = f"HELM rollback sharder 1 -n {SYSTEM}"
KNOWN: Final = "kubectl get crd -o yaml | grep -c unowned: ; true"
"""Whether the CRD has a field that 0.2.0 had not."""
LATE_SECONDS: Final = 4.0
"""New objects that the webhook missed wait for the leader, 2 s, longer on a busy machine."""


class Release:
    """What is published of a commit."""

    def __init__(self, folder: Path, commit: str) -> None:
        """Build it into a folder, with the example of that commit beside it."""
        self._folder, self.examples = folder, folder / "examples"
        self.image = f"localhost{folder / 'image-server'}"
        self._constraints = folder / "hack/constraints.txt"
        script = f"""
        REF={commit} TO={folder} hack/release.sh
        git archive {commit} examples hack/constraints.txt | tar -x -C {folder}
        sed -i s,registry.example.com/sharder,{self.image}, {self.examples}/*/deploy/*.yaml
        """
        subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, check=True)
        self._wheel, self.chart = (next(folder.glob(f"*.{kind}")) for kind in ("whl", "tgz"))
        self.install("[server]")

    def install(self, extra: str) -> Path:
        """Install the wheel into an environment of its own, once; return this."""
        environment = self._folder / f"image-{extra.strip('[]')}"
        if not environment.exists():
            subprocess.run([sys.executable, "-m", "venv", environment], check=True)
            pip = (environment / "bin/pip", "install", "-q", "-c", self._constraints)
            subprocess.run((*pip, f"{self._wheel}{extra}"), check=True)
        return environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it."""

    story: Story
    verdict: Verdict
    moved: int
    """How often an object got another owner."""


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Release, Release]:
    folder = tmp_path_factory.mktemp("releases")
    return Release(folder / "old", OLD), Release(folder / "new", "HEAD")


@pytest.fixture(scope="module", params=["helm", "helm3"])
def outcome(
    request: pytest.FixtureRequest,
    releases: tuple[Release, Release],
    tmp_path_factory: pytest.TempPathFactory,
) -> Outcome:
    log = WriteLog(tmp_path_factory.mktemp("audit"))
    with plane_of(log) as plane:
        return asyncio.run(play(plane, getattr(binaries, request.param)(), log, *releases))


async def play(
    plane: ControlPlane, helm: Path, log: WriteLog, old: Release, new: Release
) -> Outcome:
    async with telling(plane, helm) as (story, trace):
        (story.cluster.folder / "examples").unlink()
        (story.cluster.folder / "examples").symlink_to(old.examples)
        files = {
            "old.yaml": {"image": {"repository": old.image}, "rings": [RING, KEPT]},
            "new.yaml": {"image": {"repository": new.image}, "rings": [FENCED, KEPT]},
            "kept.yaml": FILES["kept.yaml"],
        }
        await story.release(INSTALLED.format(old.chart), files)
        await story.install()
        for step, known in ((UPGRADED, 1), (BACK, 0)):
            await story.under_load(step.format(new.chart))
            await story.show()
            assert int(await story.type(KNOWN)) == known, "the CRD goes with the chart"
        rejected = [said for _, said in log.refusals()]
        seen = trace.trace(refused=story.users.failed, sent=list(log.sent()), fenced=rejected)
    owned = {(write.uid, write.owner) for write in seen.writes if write.owner}
    moved = len(owned) - len({uid for uid, _ in owned})
    return Outcome(story=story, verdict=judge(seen), moved=moved)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_alone_brings_what_its_modules_import(
    releases: tuple[Release, Release], extra: str
) -> None:
    python = releases[1].install(extra) / "bin/python"
    subprocess.run([python, "-I", "-c", f"import {EXTRAS[extra]}"], check=True)


def test_no_object_moves(outcome: Outcome) -> None:
    assert (outcome.moved, outcome.verdict.moves) == (0, 0)
    assert outcome.verdict.problems(LATE_SECONDS) == []


def test_no_request_is_refused(outcome: Outcome) -> None:
    assert outcome.story.users.done["POST"] > OBJECTS, "some while the release changed"
    assert (outcome.story.users.failed, outcome.verdict.fenced) == ([], 0)


def test_rings_certificates_and_trust_survive_each_step(outcome: Outcome) -> None:
    installed, *others = outcome.story.shown
    assert others == [installed] * 2
