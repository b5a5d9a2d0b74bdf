"""``trailgate assumptions``: a table, JSON lines, or the page."""

from __future__ import annotations

import json

import pytest

from trailgate.cli.main import run
from trailgate.model.assumptions import ASSUMPTIONS, as_markdown


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["assumptions", *arguments]) == 0
    return capsys.readouterr().out


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in shown(capsys, "--json").splitlines()]

    assert [row["name"] for row in rows] == [row.name for row in ASSUMPTIONS]
    assert set(rows[0]) == {"name", "area", "statement", "why", "source", "where", "tests"}


def test_the_page_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "--markdown") == as_markdown()


def test_the_table_has_all_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")

    text = shown(capsys)

    assert [row.name for row in ASSUMPTIONS if row.name not in text] == []


def test_two_forms_at_once_are_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["assumptions", "--json", "--markdown"]) == 2
    assert "choose one" in capsys.readouterr().err
