"""The hostile run as a table."""

from collections.abc import Sequence

import msgspec

from tests.long.hostile.judging import Row
from tests.long.hostile.play import Played

HEADERS = (
    "phase", "s", "creates", "refused", "no owner", "owned in", "p50 ms", "p99 ms", "x quiet",
    "floor p99", "leaders", "moved", "takeovers s", "MB", "lag ms", "lull s",
)  # fmt: skip


def table(played: Played, rows: Sequence[Row]) -> str:
    """Return the table, and below it what was wrong and what the attacks say."""
    quiet = rows[0].p99 or 1
    cells = [
        (
            row.name,
            f"{row.seconds:.0f}",
            str(row.creates),
            str(row.refused),
            f"{row.unowned} ({100 * row.unowned / max(1, row.creates):.1f} %)",
            f"{row.owned_after:.1f} s",
            f"{1000 * row.p50:.0f}",
            f"{1000 * row.p99:.0f}",
            f"{row.p99 / quiet:.1f}",
            f"{1000 * row.floor_p99:.0f}",
            str(row.leaders_lost),
            str(len(row.moved)),
            ", ".join(f"{s:.1f}" for s in row.takeovers),
            f"{row.megabytes:.0f}",
            played.lags.get(row.name, ""),
            f"{played.lulls.get(row.name, 0):.0f}",
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(HEADERS, *cells, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        for line in (HEADERS, *cells)
    ]
    wrong = [f"{row.name}: {'; '.join(row.problems)}" for row in rows if row.problems]
    moves = [f"  {row.name}: {text}" for row in rows for text in row.moved[:4]]
    done = [f"{label}: {text}" for label, text in played.attacks.items()]
    ended = [f"ended by themselves: {', '.join(played.ended) or 'none'}"]
    verdict = ["VERDICT: " + ("not good" if wrong else "good"), *(f"  {w}" for w in wrong)]
    return "\n".join(
        [*lines, "", "attacks", *(f"  {d}" for d in done), *ended, *moves, "", *verdict]
    )


def as_json(played: Played, rows: Sequence[Row]) -> str:
    """Return the same for programs."""
    document = {
        "phases": rows,
        "attacks": played.attacks,
        "ended": played.ended,
        "lags": played.lags,
    }
    return msgspec.json.format(msgspec.json.encode(document)).decode()
