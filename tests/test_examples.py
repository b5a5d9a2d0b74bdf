"""The examples run as they are, and print exactly what their expected.txt holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*/*.py"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.parent.name, marks=[pytest.mark.spark, pytest.mark.servers])
        if path.parent.name == "spark"
        else pytest.param(path, id=path.parent.name)
        for path in SCRIPTS
    ],
)
def test_an_example_prints_what_it_should(script: Path, tmp_path: Path) -> None:
    folder = tmp_path / "example"
    shutil.copytree(script.parent, folder)
    done = subprocess.run(
        [sys.executable, script.name],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == (script.parent / "expected.txt").read_text()


def test_every_example_is_listed() -> None:
    page = (EXAMPLES / "README.md").read_text()

    assert SCRIPTS
    for path in SCRIPTS:
        assert f"({path.relative_to(EXAMPLES)})" in page


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.parent.name)
def test_an_example_uses_public_names_alone(path: Path) -> None:
    imported = [line for line in path.read_text().splitlines() if "trailgate" in line.split("#")[0]]
    modules = {line.split()[1] for line in imported if line.startswith(("import ", "from "))}

    assert modules <= {"trailgate", "trailgate.spark"}
