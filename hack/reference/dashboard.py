"""Generates charts/sharder/files/dashboard.json, the Grafana dashboard of the sharder."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hack.reference.panels import OVERVIEW, PER_LINE, ROWS, Panel
from sharder.core.api.meta import Json
from sharder.metrics.registry import PREFIX

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "charts/sharder/files/dashboard.json"

SOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
WIDTH: Final = 24
"""The number of columns of Grafana's grid."""


def queries() -> list[str]:
    """Return the PromQL expressions of all panels."""
    return [query for panels, _ in ROWS.values() for each in panels for query, _ in each.queries]


def document() -> str:
    """Return the dashboard as JSON."""
    document: Json = {
        "title": "Sharder",
        "uid": "sharder",
        "tags": ["kubernetes", "sharder"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_datasource(), _ring()]},
        "panels": list(_panels()),
    }
    return json.dumps(document, indent=2) + "\n"


def _datasource() -> Json:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }


def _ring() -> Json:
    values = f"label_values({PREFIX}controllerring_status_shards, controllerring)"
    return {
        "name": "ring",
        "label": "Ring",
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": values, "refId": "rings"},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> Iterator[Json]:
    number, y = 1, 0
    for title, (panels, height) in ROWS.items():
        if title:
            place: Json = {"x": 0, "y": y, "w": WIDTH, "h": 1}
            yield {"id": number, "type": "row", "title": title, "gridPos": place, "panels": []}
            number, y = number + 1, y + 1
        line = len(panels) if panels is OVERVIEW else min(PER_LINE, len(panels))
        width = WIDTH // line
        for index, panel in enumerate(panels):
            x, below = index % line * width, index // line * height
            place = {"x": x, "y": y + below, "w": width, "h": height}
            yield _panel(panel, number, place)
            number += 1
        y += -(-len(panels) // line) * height


def _panel(panel: Panel, number: int, place: Json) -> Json:
    targets: list[Json] = [
        {
            "refId": chr(ord("A") + index),
            "datasource": SOURCE,
            "expr": query,
            "legendFormat": legend,
        }
        for index, (query, legend) in enumerate(panel.queries)
    ]
    defaults: dict[str, Json] = {"unit": panel.unit}
    if panel.kind == "timeseries":
        # The axis begins at 0, so that heights of lines are comparable.
        defaults |= {"min": 0, "custom": _drawing(panel)}
    if panel.thresholds:
        steps: list[Json] = [{"color": c, "value": value} for c, value in panel.thresholds]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": targets,
    }


def _drawing(panel: Panel) -> Json:
    if not panel.stacked:
        return {"fillOpacity": 0}
    return {"fillOpacity": 30, "stacking": {"mode": "normal"}}
