"""Facts about `tests.vectors`: what passes, and what must not pass unnoticed."""

from pathlib import Path

import pytest

from tests.vectors import check
from tests.vectors.__main__ import main


def problems(text: str) -> list[str]:
    return [problem for result in check(text.encode()) for problem in result.problems]


def cases(text: str) -> list[str]:
    return [result.case for result in check(text.encode())]


def test_a_wrong_owner_is_reported_by_hash_and_by_plan() -> None:
    text = '{"rings": [{"members": ["a"], "assignments": {"/Secret/ns/s": "b"}}]}'

    assert problems(text) == ["/Secret/ns/s: expected 'b', got 'a'"] * 2


@pytest.mark.parametrize("none", ["null", '""'])
def test_without_members_no_object_has_an_owner(none: str) -> None:
    text = f'{{"rings": [{{"members": [], "assignments": {{"/Secret/ns/s": {none}}}}}]}}'

    assert problems(text) == []


def test_kinds_of_every_sort_are_planned() -> None:
    keys = [
        "/Namespace//team-0",
        "/Secret/team-0/s",
        "apps/Deployment/team-1/web",
        "policy/PodDisruptionBudget/team-0/b",
        "networking.k8s.io/NetworkPolicy/team-0/n",
        "scheduling.k8s.io/PriorityClass//system-node-critical",
    ]
    assignments = ",".join(f'"{key}": "a"' for key in keys)

    text = f'{{"rings": [{{"members": ["a"], "assignments": {{{assignments}}}}}]}}'

    assert problems(text) == []
    assert cases(text)[1].endswith("6 keys: plan")


def test_what_is_never_sharded_is_hashed_and_not_planned() -> None:
    key = "rbac.authorization.k8s.io/ClusterRole//system:basic-user"
    text = (
        f'{{"rings": [{{"members": ["a"], "assignments": {{"{key}": "a", "/Secret/n/s": "a"}}}}]}}'
    )

    assert problems(text) == []
    assert cases(text)[1].endswith("2 keys: plan without 1 that are never sharded")


@pytest.mark.parametrize(
    "text",
    ['{"answers": []}', "[]", "not json", '{"rings": []}', '{"rings": [{"members": "a"}]}'],
)
def test_a_file_of_another_schema_fails(text: str, tmp_path: Path) -> None:
    file = tmp_path / "vectors.json"
    file.write_text(text)

    assert main([str(file)]) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "count"),
    [
        ("gear-placement", 41),
        ("gnmic", 103),
        ("koordinator", 60),
        ("ring", 6),
        ("selectorspread", 26),
    ],
)
def test_the_frozen_vectors_of_every_system_pass_their_check(system: str, count: int) -> None:
    results = list(check(Path(__file__).with_name(f"{system}.json").read_bytes()))

    assert [result for result in results if result.problems] == []
    assert len(results) == count
