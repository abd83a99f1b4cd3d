"""What is written about settings, metrics and deployment is what the program has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import promql_parser
import pytest
import yaml  # type: ignore[import-untyped]

from hookfuse.app.metrics import Metrics, Readings
from hookfuse.config import SETTINGS, load, shown, variable
from hookfuse.core.state import State, Transition
from hookfuse.core.upkeep import Backlog
from tests.servers.packages import install, missing

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PROGRAM = "/opt/hookfuse/bin/hookfuse"


def test_every_setting_is_documented() -> None:
    """The table of docs/configuration.md is the settings', word for word: variable, default, meaning."""
    settings = load({"HOOKFUSE_DATA_DIR": "/data"}).settings
    rows = []
    for name, each in SETTINGS.items():
        default = shown(settings, name).replace("/data", "~/.local/share/hookfuse")
        rows.append(f"| `{variable(name)}` | {f'`{default}`' if default else 'none'} | {each.metadata['says']} |")
    table = "\n".join(rows)
    assert table in (ROOT / "docs" / "configuration.md").read_text(), f"docs/configuration.md should have:\n{table}"


def metrics_page() -> str:
    """With a sample for each label that a metric of ours may have."""
    metrics = Metrics()
    for after in State:
        metrics.changed(Transition("key", State.CLOSED, after, 1, 0.0, "streak"))
    backlog = Backlog(0, 0, 0, None, 0)
    return metrics.page(Readings(True, False, False, False, 0, 0, backlog, processes={})).decode()


def metric_names() -> set[str]:
    return set(re.findall(r"^(hookfuse_\w+)", metrics_page(), re.MULTILINE))


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


@pytest.mark.parametrize("expression", expressions().values(), ids=expressions())
def test_deployed_labels_exist(expression: str) -> None:
    """Every label, and every value of one, that an alert or a panel asks for is one that the metric has."""
    samples = [
        (name, dict(re.findall(r'(\w+)="([^"]*)"', labels)))
        for name, labels in re.findall(r"^(hookfuse_\w+)(?:\{(.*)\})? ", metrics_page(), re.MULTILINE)
    ]
    for name, matchers in re.findall(r"(hookfuse_\w+)\{([^}]*)\}", expression):
        for label, operator, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', matchers):
            known = {labels[label] for sample, labels in samples if sample == name and label in labels}
            assert known, f"{name} has no {label}"
            for each in value.split("|") if "~" in operator else [value]:
                assert each in known, f"{name} has no {label} {each}"
    for label in re.findall(r"\bby \((\w+)\)", expression):
        named = set(re.findall(r"hookfuse_\w+", expression))
        assert label == "le" or any(sample in named and label in labels for sample, labels in samples), label


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


def test_systemd_unit(tmp_path: Path) -> None:
    """systemd finds nothing wrong with the unit, once the program is where the unit expects it."""
    if shutil.which("systemd-analyze") is None:
        install("systemd")
    analyze = shutil.which("systemd-analyze") or missing("there is no systemd-analyze here")
    written = (DEPLOY / "hookfuse.service").read_text()
    unit = tmp_path / "hookfuse.service"
    # It is not installed there: what can be run is another matter than what is written.
    unit.write_text(written.replace(f"ExecStart={PROGRAM} ", f"ExecStart={sys.executable} "))
    assert unit.read_text() != written
    done = subprocess.run([analyze, "verify", str(unit)], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "hookfuse.service" not in done.stderr


@pytest.mark.parametrize("file", ["deploy/hookfuse.service", "docs/operating.md"])
def test_where_the_unit_expects_the_program(file: str) -> None:
    """Whoever reads of the unit finds the two lines that make the environment in which it expects the program."""
    folder = Path(PROGRAM).parents[1]
    text = (ROOT / file).read_text()
    assert f"python3 -m venv {folder}\n" in text
    assert f'{folder}/bin/pip install "hookfuse[server]"\n' in text
