"""What is published: a wheel and an sdist that hold everything, and work where there was nothing before."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tests.servers.packages import missing
from tests.service.programs import typed

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "hookfuse"
CONSTRAINTS = ROOT / "constraints.txt"

pytestmark = pytest.mark.timeout(400)


class Environment:
    """An environment of Python with nothing in it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self.bin = folder / "bin"

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": str(self.bin)}

    def run(self, program: str, *words: str, **settings: str) -> str:
        env = {**self.env, **settings}
        done = subprocess.run([self.bin / program, *words], cwd=self.bin, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def install(self, *what: str) -> None:
        self.run("python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "-c", str(CONSTRAINTS), *what)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a wheel and an sdist."""
    folder = tmp_path_factory.mktemp("built")
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), "hatchling"]
    if subprocess.run(download, capture_output=True, check=False).returncode:
        missing("packages cannot be downloaded here")
    builder = Environment(tmp_path_factory.mktemp("builder"))
    builder.install("hatchling")
    done = subprocess.run([builder.bin / "python", "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=False)
    assert done.returncode == 0
    return folder


@pytest.fixture
def empty(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


def test_nothing_is_left_out(built: Path) -> None:
    """Every file of the package is in the wheel and in the sdist: scripts, queries, templates, the mark of types."""
    (wheel,), (sdist,) = built.glob("hookfuse-*.whl"), built.glob("hookfuse-*.tar.gz")
    ours = {str(file.relative_to(PACKAGE.parent)) for file in PACKAGE.rglob("*") if file.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    assert ours >= {"hookfuse/py.typed", "hookfuse/stores/sqlite/queries.sql"}
    assert ours <= set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert {f"src/{name}" for name in ours} <= packed
    assert {"LICENSE", "README.md", "Makefile", "constraints.txt", "deploy/hookfuse.service"} <= packed


def test_the_wheel_serves(built: Path, empty: Environment, tmp_path: Path) -> None:
    """The wheel with its server installs into an empty environment, finds nothing wrong there, and serves."""
    (wheel,) = built.glob("hookfuse-*.whl")
    empty.install(f"{wheel}[server]")
    assert empty.run("hookfuse", "--version").startswith("hookfuse ")
    config = tmp_path / "hookfuse.toml"
    config.write_text(f'data_dir = "{tmp_path}/data"\n')
    assert "0001_delivery" in empty.run("hookfuse", "migrate", "--config", str(config))
    assert "error" not in empty.run("hookfuse", "doctor", "--config", str(config))
    start = f"exec hookfuse serve --config {config} --port 0"
    with typed(empty.env, start, log=tmp_path / "log") as served:
        answer = empty.run("hookfuse", "healthcheck", "--json", HOOKFUSE_URL=served.url)
        assert json.loads(answer) == {"status": "ok"}
        assert served.stop() == 0


def test_the_sdist_is_a_library(built: Path, empty: Environment) -> None:
    """The sdist installs into an empty environment and brings nothing else along."""
    (sdist,) = built.glob("hookfuse-*.tar.gz")
    empty.install(str(sdist))
    code = "from hookfuse import Breakers; print(Breakers().admit('ep_1').allowed)"
    assert empty.run("python", "-c", code) == "True\n"
    installed = empty.run("python", "-m", "pip", "list", "--format", "freeze", "--disable-pip-version-check")
    assert {line.partition("==")[0].split(" ")[0] for line in installed.split()} <= {"hookfuse", "pip", "setuptools"}
