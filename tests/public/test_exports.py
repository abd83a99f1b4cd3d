"""What users import is there, is all there is, and comes without dependencies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import hookfuse
from hookfuse import errors
from hookfuse.testing import ManualClock

ROOT = Path(hookfuse.__file__).parent


def test_names() -> None:
    """Every public name exists, and is one of about fifteen."""
    assert all(hasattr(hookfuse, name) for name in hookfuse.__all__)
    assert len(hookfuse.__all__) < 20
    assert ManualClock().now() > 0


def test_errors_are_drawn() -> None:
    """The tree drawn at the head of errors.py names every exception there is."""
    drawn = errors.__doc__ or ""
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, Exception):
            assert name in drawn
            assert issubclass(value, errors.HookfuseError)


def test_no_dependencies() -> None:
    """The library imports with nothing but the standard library."""
    code = "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]; "
    code += f"sys.path.append({str(ROOT.parent)!r}); import hookfuse, hookfuse.stores.memory, hookfuse.testing; "
    code += "hookfuse.Breakers().admit('ep')"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_core_is_pure() -> None:
    """The core imports the standard library and itself, and never asks what time it is."""
    allowed = set(sys.stdlib_module_names) | {"hookfuse"}
    for path in (ROOT / "core").glob("*.py"):
        for line in path.read_text().splitlines():
            words = line.split()
            if words[:1] in (["import"], ["from"]):
                assert words[1].split(".")[0] in allowed, f"{path.name}: {line}"
                assert not line.startswith("from hookfuse") or words[1].startswith(("hookfuse.core", "hookfuse.errors"))
            assert ".now(" not in line, f"{path.name}: {line}"
            assert " open(" not in line, f"{path.name}: {line}"
