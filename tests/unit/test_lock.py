"""The image's locks fit pyproject.toml and the versions that everybody develops with."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.dockerfile import stages
from tests.support.locks import BUILD, CONSTRAINTS, ENTRY, PROJECT, RUNTIME, entries

LOCKS = (RUNTIME, BUILD)


def constrained() -> dict[str, str]:
    pairs = (line.split("==") for line in CONSTRAINTS.read_text().split())
    return {canonicalize_name(name): version for name, version in pairs}


def wanted(lock: Path) -> list[str]:
    document = tomllib.loads(PROJECT.read_text())
    if lock == BUILD:
        return [*document["build-system"]["requires"]]
    project = document["project"]
    extras = project["optional-dependencies"]
    server = {*extras["server"]} - {"sharder[cli]"}
    assert len(server) == len(extras["server"]) - 1  # the service has the command line too
    return [*project["dependencies"], *extras["cli"], *sorted(server)]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_has_nothing_but_versions_with_sha256_hashes(lock: Path) -> None:
    text = lock.read_text()
    hashes = re.findall(r"--hash=(\S+)", text)

    assert ENTRY.sub("", text) == ""
    assert [each for each in hashes if not re.fullmatch(r"sha256:[0-9a-f]{64}", each)] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_what_the_project_asks_for_is_locked(lock: Path) -> None:
    locked = entries(lock)
    asked = [Requirement(text) for text in wanted(lock)]

    assert asked
    assert [
        str(each)
        for each in asked
        if not each.specifier.contains(locked.get(canonicalize_name(each.name), "0"))
    ] == []


def test_what_that_needs_is_locked_too() -> None:
    locked = entries(RUNTIME)
    needs = {name: map(Requirement, requires(name) or ()) for name in locked}

    assert [
        f"{name} needs {need}"
        for name, all_needs in needs.items()
        for need in all_needs
        if (need.marker is None or need.marker.evaluate({"extra": ""}))
        and not need.specifier.contains(locked.get(canonicalize_name(need.name), "0"))
    ] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_has_the_versions_of_the_development_environment(lock: Path) -> None:
    assert entries(lock).items() <= constrained().items()


def test_every_install_of_the_image_asks_for_hashes_or_takes_nothing_from_outside() -> None:
    build, image = stages()
    commands = [c for i in build if i.word == "RUN" for c in i.rest.split(" && ")]
    installs = [c for c in commands if re.search(r"pip \S*.*(install|wheel|download) ", c)]

    assert len(installs) == 4
    assert [c for c in installs if "--require-hashes" not in c and "--no-index" not in c] == []
    assert [i for i in image if i.word in {"RUN", "ADD"}] == []


def test_the_image_runs_as_a_number_that_is_not_root() -> None:
    (user,) = (i.rest for i in stages()[-1] if i.word == "USER")

    assert [int(part) > 0 for part in user.split(":")] == [True, True]
