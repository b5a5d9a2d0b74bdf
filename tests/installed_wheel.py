"""A built wheel in an environment that holds nothing but what it asks for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest

pytest.importorskip("packaging")
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def _environment() -> dict[str, str]:
    """Return the variables of this process but Python's: tests on Spark set the path of its workers, and pip looks there."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


class Environment:
    """A virtual environment with the wheel, and links to the packages that an extra asks for."""

    def __init__(self, folder: Path, wheel: Path, extra: str) -> None:
        venv.create(folder, with_pip=False)
        self.bin = folder / "bin"
        site = next(folder.glob("lib/python*/site-packages"))
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "--quiet",
                "--python",
                str(self.bin / "python"),
                "--disable-pip-version-check",
                "install",
                "--no-deps",
                str(wheel),
            ],
            env=_environment(),
            check=True,
        )
        own = metadata.Distribution.at(next(site.glob("trailgate-*.dist-info")))
        for name in sorted(_needed(own, extra)):
            _link(metadata.distribution(name), site)

    def run(
        self, *command: str, folder: Path, compiled: bool = False, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program; loops are compiled for it, or run as they are written. ``variables`` are added to its environment."""
        environment = _environment()
        environment |= {"TRAILGATE_LOOPS": "" if compiled else "plain", **variables}
        program, *arguments = command
        return subprocess.run(
            [str(self.bin / program), *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )


def _needed(distribution: metadata.Distribution, extra: str) -> set[str]:
    """Return the names of the distributions that one asks for with an extra, and those these ask for."""
    found: set[str] = set()
    asked = [(distribution, extra)]
    while asked:
        one, extra = asked.pop()
        for text in one.requires or []:
            need = Requirement(text)
            name = canonicalize_name(need.name)
            if need.marker is not None and not need.marker.evaluate({"extra": extra}):
                continue
            if name not in found:
                found.add(name)
                extras = need.extras or {""}
                asked += [(metadata.distribution(name), inner) for inner in extras]
    return found


def _link(distribution: metadata.Distribution, site: Path) -> None:
    """Link what a distribution installed at the top of its folder."""
    home = Path(str(distribution.locate_file("")))
    for part in {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}:
        if not (site / part).exists():
            (site / part).symlink_to(home / part)


def build_wheel(source: Path, built: Path) -> Path:
    """Build a pure wheel from a copy of the sources, without native loops; return its path."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")
    shutil.copytree(ROOT / "src", source / "src", ignore=leave)
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "--quiet",
            "--disable-pip-version-check",
            "wheel",
            "--no-deps",
            "--wheel-dir",
            str(built),
            str(source),
        ],
        check=True,
    )
    return next(built.glob("*.whl"))
