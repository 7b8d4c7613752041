"""Facts about `sharder.cli.serve.start`: where settings come from, and how errors are told."""

from pathlib import Path

import pytest

from sharder.cli.serve.start import load_file
from sharder.core.errors import ConfigError

HEADER = "apiVersion: config.sharding.timebertt.dev/v1alpha1\nkind: SharderConfig\n"


def test_problems_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(HEADER + "health: 3\nlogging: 4")

    with pytest.raises(ConfigError) as caught:
        load_file(file, {}, {})

    assert str(caught.value) == (
        f"invalid settings in {file}, variables or flags: health: must be a mapping, but is 3; "
        "logging: must be a mapping, but is 4"
    )


def test_problems_without_a_file_are_reported_as_well() -> None:
    with pytest.raises(ConfigError, match="invalid settings: SHARDER_LOGGING_LEVEL: must be"):
        load_file(None, {"SHARDER_LOGGING_LEVEL": "loud"}, {})
