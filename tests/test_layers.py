"""The rooms keep to themselves: the contracts of pyproject.toml, run as a test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_MODULES = 15


def test_imports_between_rooms_go_downwards_only() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_folder_has_at_most_fifteen_modules() -> None:
    """More of them are a list that nobody reads: they are grouped in folders of their own (decision 0018)."""
    modules = Counter(
        path.parent.relative_to(ROOT).as_posix()
        for path in (ROOT / "src").rglob("*.py")
        if path.name != "__init__.py"
    )

    assert {folder: many for folder, many in modules.items() if many > MOST_MODULES} == {}
