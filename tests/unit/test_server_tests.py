"""Facts about `hack.server_tests` and `hack.check`: what they run and report."""

from collections.abc import Sequence
from pathlib import Path, PurePath

import pytest
from _pytest.mark.expression import Expression

from hack import check
from hack.server_tests import AT_ONCE, E2E, long_parts, parts


def selects(arguments: Sequence[str], file: str, marks: set[str]) -> bool:
    """Return whether pytest with these arguments runs a test of that file with these marks."""

    def is_marked(name: str, /, **_: str | int | bool | None) -> bool:
        return name in marks

    words = list(arguments)
    marked = "-m" not in words or Expression.compile(words.pop(words.index("-m") + 1)).evaluate(
        is_marked
    )
    ignored = [word.removeprefix("--ignore=") for word in words if word.startswith("--ignore=")]
    paths = [word for word in words if not word.startswith("-")]
    return (
        marked
        and not any(PurePath(file).is_relative_to(path) for path in ignored)
        and (not paths or any(PurePath(file).is_relative_to(path) for path in paths))
    )


@pytest.mark.parametrize(
    ("file", "marks", "target"),
    [
        ("tests/unit/core/movement/test_step.py", set[str](), "check"),
        ("tests/replica/test_leader.py", set[str](), "check"),
        ("tests/property/test_plan.py", set[str](), "check"),
        ("tests/compat/test_ring.py", {"compat"}, "check"),
        ("tests/contract/test_store.py", set[str](), "check"),
        ("tests/attacks/test_labels.py", {"apiserver"}, "test"),
        ("tests/chart/test_pod.py", {"helm"}, "test"),
        ("tests/integration/test_cli.py", {"apiserver"}, "test"),
        ("tests/integration/test_sdk.py", {"apiserver"}, "test"),
        ("tests/integration/test_placement_custom.py", {"apiserver", "service"}, "test"),
        ("tests/integration/test_many_reviews.py", {"apiserver", "long"}, "test-long"),
        ("tests/e2e/test_outages.py", {"e2e", "apiserver"}, "test"),
        ("tests/e2e/test_outages.py", {"e2e", "apiserver", "long"}, "test-long"),
        ("tests/e2e/test_goshard.py", {"e2e", "apiserver", "long"}, "test-long"),
        ("tests/long/test_attacks_bite.py", {"e2e", "apiserver", "long"}, "test-long"),
        ("tests/long/test_nemesis.py", {"e2e", "apiserver", "long"}, "test-long"),
    ],
)
def test_each_test_is_run_once(file: str, marks: set[str], target: str) -> None:
    runs = {
        "check": [words[1:] for words in check.TESTS.values()],
        "test": list(parts().values()),
        "test-long": list(long_parts().values()),
    }

    assert Path(file).exists()
    assert [
        name for name, each in runs.items() for words in each if selects(words, file, marks)
    ] == [target]


def test_each_file_of_e2e_tests_is_a_part_of_its_own() -> None:
    files = {str(path) for path in E2E.glob("test_*.py")}
    named = [argument for part in parts().values() for argument in part if argument in files]

    assert sorted(named) == sorted(files)


def test_a_program_that_fails_keeps_no_other_from_running(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fails, passes = ("python", "-c", "exit('no')"), ("python", "-c", "print('yes')")

    assert not check.passed({"one": fails, "two": passes, "three": passes}, at_once=AT_ONCE)

    printed, errors = capsys.readouterr()
    assert printed.count("yes") == 2
    assert "--- one\nno\n" in printed
    assert errors == "error: one failed, see above\n"


def test_make_check_tries_less_and_make_test_all() -> None:
    quick, whole = check.tests(measure=False), check.tests(measure=True)

    assert all(command[-len(check.QUICK) :] == check.QUICK for command in quick.values())
    assert {name: command[0] for name, command in whole.items()} == {
        name: "pytest" if name in check.NOT_MEASURED else "coverage" for name in check.TESTS
    }
    assert not any(set(check.QUICK[1:]) & set(command) for command in whole.values())
