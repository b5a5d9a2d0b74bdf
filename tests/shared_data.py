"""Published data that is not in the repository: tests that need it are skipped, with the reason, where it is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

DATA: Final = Path(__file__).parents[2] / "shared" / "data"


def folder(name: str) -> Path:
    """Return the folder of some published data."""
    return DATA / name


def missing(name: str) -> str:
    """Return the reason for which a test is skipped; empty where the data is there."""
    reason = f"needs the published data ../shared/data/{name}, which is not beside this checkout"
    return "" if folder(name).is_dir() else reason


def needs(name: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test where the data is not there."""
    return pytest.mark.skipif(bool(missing(name)), reason=missing(name))
