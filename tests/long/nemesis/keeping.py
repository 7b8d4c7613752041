"""Keep what came of a run, and read it again, to judge it once more."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from hack.playground import ROOT
from tests.long.nemesis.play import Played

DIRECTORY: Final = ROOT / "build/nemesis"


def keep(played: Played, directory: Path = DIRECTORY) -> Path:
    """Write it to a file of its own and return that; one of the same setup is replaced.

    The logs of the sharders are beside it.
    """
    setup = played.setup
    fence = "fence" if setup.fence else "no-fence"
    name = "-".join(filter(None, (setup.strategy, f"seed-{setup.seed}", fence, setup.mutant)))
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{name}.trace"
    # Not JSON, which has no infinite numbers.
    file.write_bytes(msgspec.msgpack.encode(replace(played, logs={})))
    for process, text in played.logs.items():
        file.with_suffix(f".{process}.log").write_text(text)
    return file


def kept(file: Path) -> Played:
    """Return what was kept.

    Raises:
        OSError: the file cannot be read.
        msgspec.DecodeError: it is no trace, or of another version.
    """
    return msgspec.msgpack.decode(file.read_bytes(), type=Played)
