"""What is written about settings, metrics and deployment is what the program has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import promql_parser
import pytest
import yaml  # type: ignore[import-untyped]

from hookfuse.app.metrics import Metrics, Readings
from hookfuse.config import SETTINGS, load, shown, variable
from hookfuse.core.state import State, Transition
from hookfuse.core.upkeep import Backlog

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def test_every_setting_is_documented() -> None:
    """The table of docs/configuration.md is the settings', word for word: variable, default, meaning."""
    settings = load({"HOOKFUSE_DATA_DIR": "/data"}).settings
    rows = []
    for name, each in SETTINGS.items():
        default = shown(settings, name).replace("/data", "~/.local/share/hookfuse")
        rows.append(f"| `{variable(name)}` | {f'`{default}`' if default else 'none'} | {each.metadata['says']} |")
    table = "\n".join(rows)
    assert table in (ROOT / "docs" / "configuration.md").read_text(), f"docs/configuration.md should have:\n{table}"


def metric_names() -> set[str]:
    metrics = Metrics()
    metrics.changed(Transition("key", State.CLOSED, State.OPEN, 1, 0.0, "streak"))
    backlog = Backlog(0, 0, 0, None, 0)
    page = metrics.page(Readings(True, False, False, False, 0, 0, backlog)).decode()
    return set(re.findall(r"^(hookfuse_\w+)", page, re.MULTILINE))


@pytest.mark.parametrize("file", ["alerts.yaml", "grafana.json"])
def test_deployed_names_exist(file: str) -> None:
    """Every metric that an alert or the dashboard asks for is one that the program has."""
    asked = set(re.findall(r"\bhookfuse_\w+", (DEPLOY / file).read_text()))
    assert asked
    assert asked - metric_names() == set()


def expressions() -> dict[str, str]:
    """What alert rules and panels ask Prometheus for, by their names. Grafana fills in a span."""
    groups = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    asked = {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}
    asked |= {f"{panel['title']} {target['refId']}": target["expr"] for panel in panels for target in panel["targets"]}
    return {name: expression.replace("$__rate_interval", "1m") for name, expression in asked.items()}


@pytest.mark.parametrize("expression", expressions().values(), ids=expressions())
def test_prometheus_can_read_it(expression: str) -> None:
    """Every expression of an alert or a panel is one that Prometheus's grammar takes."""
    promql_parser.parse(expression)


def test_every_metric_is_documented() -> None:
    """docs/operating.md names every metric of ours, and none that is not there."""
    there = {re.sub(r"_(bucket|count|sum)$", "", name) for name in metric_names()}
    written = set(re.findall(r"`(hookfuse_\w+)`", (ROOT / "docs" / "operating.md").read_text()))
    assert written == there


def test_every_panel_asks_for_something() -> None:
    """No panel of the dashboard is empty."""
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    assert panels
    assert all(panel["targets"] for panel in panels)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_unit() -> None:
    """systemd finds nothing wrong with the unit."""
    done = subprocess.run(
        ["systemd-analyze", "verify", str(DEPLOY / "hookfuse.service")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "hookfuse.service" not in done.stderr
