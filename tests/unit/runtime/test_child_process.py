"""Facts about computing in a child process: the answer, a crash, and the end of a call."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from sharder.core.rebalance.packed import unpack
from sharder.runtime.child_process import ChildFailed, in_child
from tests.support.values_rebalance import even, many, packed, plain


def test_a_rebalance_is_computed_in_a_child_process() -> None:
    problem = packed(even(), (plain("a"), plain("b")), many("a", 3))

    answer = asyncio.run(in_child("sharder.core.rebalance")(problem))

    assert [move.target for move in unpack(answer).moves] == ["b"]


def test_a_child_that_crashes_says_what_its_last_line_was() -> None:
    with pytest.raises(ChildFailed, match=r"sharder\.core\.rebalance ended with 1: msgspec"):
        asyncio.run(in_child("sharder.core.rebalance")(b"{"))


def test_a_child_is_killed_when_its_call_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = tmp_path / "pid"
    os.mkfifo(noted)
    code = f"with open({str(noted)!r}, 'w') as noted: noted.write(str(os.getpid()))"
    (tmp_path / "sleeper.py").write_text(f"import os, time\n{code}\ntime.sleep(600)\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    async def cancelled() -> int:
        call = asyncio.ensure_future(in_child("sleeper")(b""))
        pid = await asyncio.to_thread(noted.read_text)
        call.cancel()
        await asyncio.wait({call})
        return int(pid)

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(cancelled()), 0)
