"""Searches of these tests take as long as they need: how far one comes in a fifth of a second depends on the machine."""

from __future__ import annotations

import pytest

from trailgate.browse import operation_search


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operation_search, "SECONDS", 60.0)
