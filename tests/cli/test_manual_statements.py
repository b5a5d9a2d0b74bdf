"""Statements of the manuals, each tried as a user tries it: files, a capture, and what ``show`` prints."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trailgate.cli.main import run

CASES = Path(__file__).parent / "cases" / "manual_statements.toml"
Case = dict[str, Any]


def cases() -> Iterator[Any]:
    given = tomllib.loads(CASES.read_text())
    common = {name: text for name, text in given.items() if name != "case"}
    for case in given["case"]:
        yield pytest.param({**common, **case}, id=case["name"])


def captured(case: Case, folder: Path) -> int:
    """Write the files of a case and capture its messages; return the exit code."""
    for name in ("definitions", "copybook"):
        (folder / f"my.{name}").write_text(case.get(name, ""))
    (folder / "my.properties").write_text(case["properties"] + case.get("more", ""))
    (folder / "messages").mkdir()
    for number, body in enumerate(case["messages"]):
        (folder / "messages" / f"{number:04}.txt").write_bytes(body.encode())
    places = ["--properties", "my.properties", "--from", "messages", "--to", "ot"]
    return run(["capture", *places, *case.get("options", ())])


@pytest.mark.parametrize("case", list(cases()))
def test_statement(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    code = captured(case, tmp_path)

    err = capsys.readouterr().err
    assert code == case.get("code", 0), err
    for part in case.get("says", ()):
        assert part in err
    if code:
        return
    assert run(["show", "ot", "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    wanted = [json.loads(line) for line in case["operations"].split("\n") if line]
    empty: Case = {"before": {}, "after": {}}
    rows = [{**row, **{side: row[side] or {} for side in empty}} for row in rows]
    found = [
        {key: row[key] for key in empty | want} for row, want in zip(rows, wanted, strict=True)
    ]
    assert found == [empty | want for want in wanted]


def test_a_table_without_offsets_is_the_same_in_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "delimited messages use no offsets, nor does a trail that is read"
    case = next(case.values[0] for case in cases() if case.id == name)
    assert captured(case, tmp_path) == 0
    (tmp_path / "messages" / "0000.txt").write_text("I,G.T,2026-01-05 09:00:00,d,e,f\n")

    again = ["capture", "--properties", "my.properties", "--from", "messages", "--to", "ot"]

    assert run(again) == 0
