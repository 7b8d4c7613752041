"""Facts about `hack.server_tests` and `hack.check`: what is run, and what is told of it."""

import pytest

from hack.check import side_by_side
from hack.server_tests import E2E, TIMED, commands_for, parts


def test_each_file_of_e2e_tests_is_a_part_of_its_own() -> None:
    files = {str(path) for path in E2E.glob("test_*.py")}
    named = [argument for part in parts().values() for argument in part if argument in files]

    assert sorted(named) == sorted(files)


def test_what_is_timed_is_there() -> None:
    assert set(TIMED) <= parts().keys()


def test_a_program_that_fails_keeps_no_other_from_running() -> None:
    fails, passes = ("python", "-c", "exit('no')"), ("python", "-c", "print('yes')")

    ended = dict(side_by_side({"one": fails, "two": passes, "three": passes}))

    assert {name: (each.passed, each.output) for name, each in ended.items()} == {
        "one": (False, "no"),
        "two": (True, "yes"),
        "three": (True, "yes"),
    }


def test_without_a_name_all_parts_are_run_and_measured_if_that_is_wanted() -> None:
    commands = commands_for(["--coverage"])

    assert commands.keys() == parts().keys()
    assert all(command[:3] == ("coverage", "run", "-m") for command in commands.values())


def test_a_part_is_run_alone_by_its_name() -> None:
    assert commands_for(["outages"]) == {"outages": ("pytest", "-q", "tests/e2e/test_outages.py")}


def test_an_unknown_part_is_refused_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        commands_for(["outage"])

    assert "there is no part outage: name some of integration" in capsys.readouterr().err
