"""``trailgate journal``: the files and messages of a journal, and lines that a capture reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capture_place import Place
from received_messages import received
from sample_trail import Op, write_trail
from trailgate.cli.main import run
from trailgate.live.files.journal_writer import Journal, JournalOptions

BODIES = [f"I,MY.ORDERS,2026-01-01,1,{name}" for name in ("one", "two", "three")]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    headers = [{"TxInd": "B"}, {}, {"a": "b"}]
    rows = received(BODIES, ["x", "y", "z"], headers)
    with Journal(tmp_path / "ot.journal", JournalOptions(segment_bytes=10)) as journal:
        for at in range(3):
            journal.append(rows.slice(at, 1))
        journal.release(1)
    return tmp_path / "ot"


def test_files_are_listed(prefix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["journal", "list", str(prefix), "--format", "json"]) == 0

    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["kind"], row["first"], row["messages"]) for row in rows] == [
        ("ids", 0, 1),
        ("segment", 1, 1),
        ("segment", 2, 1),
    ]


def test_messages_are_shown(prefix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["journal", "show", f"{prefix}.journal", "--from", "2", "--format", "json"]
    assert run(command) == 0

    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["number"], row["id"], row["headers"]) == (2, "z", {"a": "b"})
    assert row["body"] == BODIES[2]
    assert run(["journal", "show", str(prefix)]) == 0
    assert "2026-01-01" in capsys.readouterr().out


def test_replayed_messages_can_be_captured(
    prefix: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(["journal", "replay", str(prefix), "--limit", "1"]) == 0
    lines = capsysbinary.readouterr().out
    place = Place(prefix.parent)
    (place.messages / "again.jsonl").write_bytes(lines)
    place.run("new")

    assert place.names("new") == ["two"]


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("ot", "Name the folder, or the prefix of the trail"),
        ("rt", "has no journal: a capture from Kafka needs none"),
        ("kafka://localhost/orders", "Name the journal's folder, not the broker"),
    ],
)
def test_a_path_without_a_journal_is_an_error_with_its_reason(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    hint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_trail(tmp_path / "rt", [[[Op("I", 1)]]])

    assert run(["journal", "list", path]) == 1
    error = capsys.readouterr().err
    assert f"there is no journal here ({path})" in error
    assert hint in error
    assert run(["journal", "list", str(tmp_path), "--limit", "1"]) in {1, 2}
