"""A release from install to clean-up, beginning with the oldest chart: what survives each step.

The program is today's at each step, under the rights and the configuration of its chart.
"""

import asyncio
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from hack.control_plane import ControlPlane
from hack.playground import SYSTEM
from sharder.core.names import VALIDATION_NAME
from sharder.kube.client import connect
from tests.chart.rendering import CHART, REQUIRED, HelmError
from tests.support.eventually import eventually
from tests.support.release import CRD, SECRET, WITHIN, Kept, Release

OLDEST = Path(__file__).parents[1] / "fixtures/sharder-0.1.0.tgz"
"""The chart as it was when the first version of the service was complete."""

OLD_VALUES: Mapping[str, object] = {
    "shardedResources": [{"group": "", "resources": ["secrets", "configmaps"]}]
}
RESOURCES = [{"resource": "secrets", "controlledResources": [{"resource": "configmaps"}]}]
VALUES: Mapping[str, object] = {
    **REQUIRED,
    "rings": [{"name": "kept", "resources": RESOURCES}],
}
CREATING: Mapping[str, object] = {
    **REQUIRED,
    "rings": [{"name": "made", "resources": RESOURCES, "create": True}],
}
CHANGED: Mapping[str, object] = {
    **VALUES,
    "config": {"controller": {"sharder": {"syncPeriod": "7m"}}},
}
RING = f"""
apiVersion: sharding.timebertt.dev/v1alpha1
kind: ControllerRing
metadata: {{name: kept}}
spec: {{resources: {RESOURCES}}}
"""
CREATES = 10
PROMPT_SECONDS = 2.5
"""A create that waited for the webhook would take its timeout, 5 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What was there after each step, and what the last ones did."""

    refusal: str
    """What helm said to the old values."""
    installed: Kept
    upgraded: Kept
    fields_upgraded: str
    """Of the spec of a ring, as the CRD has them."""
    rolled_back: Kept
    fields_rolled_back: str
    upgraded_again: Kept
    uninstalled: Kept
    left: str
    """Objects of the release that outlive it, one in a line."""
    creates: tuple[float, ...]
    """Seconds that each create took after the release was gone."""
    passed_over: float
    """Calls of webhooks that the API server tried meanwhile, and gave up."""
    installed_again: Kept
    """By helm 3."""
    refused_creation: str
    """What helm 3 said to a ring that the chart should create."""
    upgraded_config: str
    """The configuration after an upgrade by helm 3 that changed it."""
    clean_up: tuple[str, ...]
    """The commands of the notes."""
    cleaned_up: str
    """What they left."""


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    with ControlPlane() as plane:
        yield asyncio.run(tell(Release(plane)))


async def tell(release: Release) -> Story:
    """Live through all of it, as docs/install.md and docs/upgrade.md say."""
    await release.helm("install", "sharder", str(OLDEST), "--create-namespace", values=OLD_VALUES)
    await release.kubectl("wait", "--for=condition=Established", f"crd/{CRD}")
    release.plane.apply(RING)
    installed = await release.replace_sharder()

    with pytest.raises(HelmError) as refused:
        await release.helm("upgrade", "sharder", str(CHART))
    await release.helm("upgrade", "sharder", str(CHART), values=VALUES)
    upgraded = await release.replace_sharder()
    await eventually(lambda: judges(release), within=WITHIN)
    fields_upgraded = await fields(release)

    await release.helm("rollback", "sharder", "1")
    rolled_back = await release.replace_sharder()
    fields_rolled_back = await fields(release)

    await release.helm("upgrade", "sharder", str(CHART), values=VALUES)
    upgraded_again = await release.replace_sharder()
    notes = await release.helm("get", "notes", "sharder")

    await release.helm("uninstall", "sharder")
    release.stop_sharder()
    uninstalled = await release.kept()
    left = await remaining(release)
    before = await release.fail_opens()
    creates = await create(release)
    passed_over = await release.fail_opens() - before

    await release.helm3("install", "sharder", str(CHART), values=VALUES)
    installed_again = await release.replace_sharder()
    with pytest.raises(HelmError) as refused_creation:
        await release.helm3("upgrade", "sharder", str(CHART), values=CREATING)
    await release.helm3("upgrade", "sharder", str(CHART), values=CHANGED)
    upgraded_config = await release.kubectl("get", "cm", "sharder", "-n", SYSTEM, "-o", "yaml")
    await release.helm3("uninstall", "sharder")
    release.stop_sharder()
    clean_up = tuple(
        line.strip() for line in notes.splitlines() if line.strip().startswith("kubectl delete ")
    )
    for command in clean_up:
        await release.kubectl(*shlex.split(command)[1:])
    return Story(
        refusal=str(refused.value),
        installed=installed,
        upgraded=upgraded,
        fields_upgraded=fields_upgraded,
        rolled_back=rolled_back,
        fields_rolled_back=fields_rolled_back,
        upgraded_again=upgraded_again,
        uninstalled=uninstalled,
        left=left,
        creates=creates,
        passed_over=passed_over,
        installed_again=installed_again,
        refused_creation=str(refused_creation.value),
        upgraded_config=upgraded_config,
        clean_up=clean_up,
        cleaned_up=await ours(release),
    )


async def judges(release: Release) -> bool:
    """Return whether the sharder uses a right that the oldest chart did not give."""
    kind = "validatingwebhookconfigurations"
    return VALIDATION_NAME in await release.kubectl("get", kind, "-o", "name")


async def fields(release: Release) -> str:
    """Return the fields of a ring's spec that the CRD knows, as JSON."""
    schema = "{.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties}"
    return await release.kubectl("get", "crd", CRD, "-o", f"jsonpath={schema}")


async def remaining(release: Release) -> str:
    """Return the objects with the label of the release, and its Secret."""
    kinds = (
        "clusterrole,clusterrolebinding,role,rolebinding,serviceaccount,deployment,service,"
        "configmap,poddisruptionbudget,secret,"
        "mutatingwebhookconfiguration,validatingwebhookconfiguration"
    )
    label = "app.kubernetes.io/instance=sharder"
    names = await release.kubectl("get", kinds, "-A", "-l", label, "-o", "name")
    secret = await release.kubectl("get", "secret", SECRET, "-n", SYSTEM, "-o", "name")
    crd = await release.kubectl("get", "crd", CRD, "-o", "name")
    return "\n".join(sorted({*names.splitlines(), secret.strip(), crd.strip()}))


async def ours(release: Release) -> str:
    """Return the webhook configurations and CRDs of the cluster: all are ours."""
    kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations,crd"

    async def without_crd() -> str:
        # The API server deletes all rings first.
        names = await release.kubectl("get", kinds, "-o", "name")
        assert CRD not in names
        return names

    return await eventually(without_crd, within=WITHIN)


async def create(release: Release) -> tuple[float, ...]:
    """Create Secrets that the ring selects, one after the other; return how long each took."""
    client = await connect(str(release.plane.admin_kubeconfig))
    taken = []
    try:
        for number in range(CREATES):
            body = {"metadata": {"name": f"secret-{number}"}}
            began = time.monotonic()
            await client.request("POST", "/api/v1/namespaces/default/secrets", body=body)
            taken.append(time.monotonic() - began)
    finally:
        await client.close()
    return tuple(taken)


def test_the_oldest_chart_begins_with_a_ring_and_certificates(story: Story) -> None:
    assert [*story.installed.rings] == ["kept"]
    assert story.installed.certificates.keys() >= {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    assert [*story.installed.ca_bundles] == ["controllerring-kept"]


def test_an_upgrade_with_the_old_values_is_refused_by_name(story: Story) -> None:
    assert "shardedResources" in story.refusal


@pytest.mark.parametrize(
    "step", ["upgraded", "rolled_back", "upgraded_again", "uninstalled", "installed_again"]
)
def test_rings_certificates_and_trust_survive(story: Story, step: str) -> None:
    assert getattr(story, step) == story.installed


def test_helm_3_upgrades_all_but_rings_that_it_would_leave_as_they_are(story: Story) -> None:
    assert "rings: made has create, which needs helm 4" in story.refused_creation
    assert "syncPeriod: 7m" in story.upgraded_config


def test_the_crd_goes_with_the_chart(story: Story) -> None:
    assert '"placement":' in story.fields_upgraded
    assert '"placement":' not in story.fields_rolled_back


def test_uninstalling_leaves_the_crd_and_the_secret_alone(story: Story) -> None:
    assert story.left.splitlines() == [
        f"customresourcedefinition.apiextensions.k8s.io/{CRD}",
        f"secret/{SECRET}",
    ]


def test_after_uninstalling_creates_take_no_longer(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(f"\na create took at most {max(story.creates):.3f} s")  # noqa: T201

    assert story.passed_over >= CREATES
    assert max(story.creates) < PROMPT_SECONDS


def test_two_commands_of_the_notes_clean_up(story: Story) -> None:
    assert len(story.clean_up) == 2
    assert story.cleaned_up == ""
