"""Fixed-width messages the whole way: files, properties and copybook, to a trail and back."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import trailgate
from trailgate.cli.main import run
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.cobol.records.encoding import RecordEncoder
from trailgate.definitions.defgen import read_sourcedefs
from trailgate.model.operations_table import to_operations

PROPERTIES = """parser.type=fixed
fixed.schematype=copybook
fixed.copybook=records.cpy
fixed.header=HEADER
fixed.schema=BANK
fixed.optype=OP
fixed.table=REC
fixed.codepage=cp037
fixed.records=message
"""
HEADER = """
       01  HEADER.
           05  OP       PIC X.
           05  REC      PIC X(8).
           05  SITE     PIC 9(2).
"""
FIELDS = """
      * KEY
           05  NUM       PIC 9(10).
           05  HOLDER    PIC X(6).
           05  BALANCE   PIC S9(7)V99 COMP-3.
           05  RATE      PIC S9(20)V9(8) COMP-3.
           05  COUNTED   PIC S9(4) COMP.
           05  SMALL     PIC SV9(4).
"""
VALUES = {
    "NUM": 12,
    "HOLDER": "Größe",
    "BALANCE": Decimal("-1234.56"),
    "RATE": Decimal("12345678901234567890.12345678"),
    "COUNTED": -2,
    "SMALL": Decimal("-0.0001"),
}
IMAGE = {"SITE": "7"} | {name: str(value) for name, value in VALUES.items()}
GIVEN = ["capture", "--properties", "a.properties", "--from", "messages", "--to", "ot"]


def body(code: str = "I") -> bytes:
    """Return a message in EBCDIC."""
    layout = read_copybook(f"       01  ACCOUNT.{FIELDS}")[0]
    columns = {name: pa.array([value]) for name, value in VALUES.items()}
    return (
        f"{code}ACCOUNT 07".encode("cp037") + RecordEncoder(layout).encode(columns).data.tobytes()
    )


@pytest.fixture(autouse=True)
def _site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.properties").write_text(PROPERTIES)
    (tmp_path / "records.cpy").write_text(f"{HEADER}       01  ACCOUNT.\n           COPY ACCT.\n")
    (tmp_path / "acct.cpy").write_text(FIELDS)
    (tmp_path / "messages").mkdir()
    (tmp_path / "messages/1").write_bytes(body())
    (tmp_path / "messages/2").write_bytes(body("D"))
    monkeypatch.chdir(tmp_path)


def rows(batches: Any) -> list[tuple[str, str, dict[str, str], dict[str, str]]]:
    """Return table, code and images of operations."""
    found = pa.Table.from_batches(batches).to_pylist(maps_as_pydicts="strict")
    names = ("table", "op_type", "before", "after")
    return [tuple(row[name] or {} for name in names) for row in found]  # type: ignore[misc]


def test_a_trail_gives_back_what_messages_hold() -> None:
    assert run([*GIVEN, "--no-compress-deletes"]) == 0

    assert rows(trailgate.read_trail("ot")) == [
        ("BANK.ACCOUNT", "I", {}, IMAGE),
        ("BANK.ACCOUNT", "D", IMAGE, {}),
    ]


def test_the_library_parses_what_the_command_captures() -> None:
    capture = trailgate.load_capture("a.properties")

    parsed = capture.parse(trailgate.messages_from([body(), body()[:20]]))

    assert rows([to_operations(parsed.batch)]) == [("BANK.ACCOUNT", "I", {}, IMAGE)]
    assert [problem.message for problem in parsed.problems] == [1]


def test_the_definitions_beside_a_trail_are_those_of_gendef() -> None:
    assert run(GIVEN) == 0
    assert run(["gendef", "-prop", "a.properties", "-out", "gen.def"]) == 0

    written, generated = (
        read_sourcedefs(Path(name).read_bytes()) for name in ("ot.def", "gen.def")
    )
    assert written.tables == generated.tables


def test_bytes_that_are_no_text_are_quarantined_whole_and_can_be_repaired() -> None:
    wrong = body()[:-1] + b"\xff"
    Path("messages/1").write_bytes(wrong)

    assert run([*GIVEN, "--on-error", "quarantine"]) == 0

    aside = json.loads(Path("ot.quarantine.jsonl").read_text())
    assert base64.b64decode(aside["body_base64"]) == wrong
    assert "table BANK.ACCOUNT, field SMALL, bytes f0 f0 f0 ff" in aside["reason"]
    repaired = {**aside, "body_base64": base64.b64encode(body()).decode()}
    Path("repaired.jsonl").write_text(json.dumps(repaired))
    assert run([*GIVEN[:4], "repaired.jsonl", "--to", "ot"]) == 0
    assert [row[1] for row in rows(trailgate.read_trail("ot"))] == ["D", "I"]


def test_a_dry_run_tells_the_field_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("messages/2").write_bytes(body()[:-1] + b"\xff")

    assert run([*GIVEN, "--dry-run"]) == 1

    assert (
        "messages/2, record 1, byte 49, table BANK.ACCOUNT, field SMALL" in capsys.readouterr().out
    )
    assert not Path("ot.def").exists()


def test_other_definitions_are_refused_where_a_copybook_has_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("x.def").write_text("")

    assert run([*GIVEN, "--definitions", "x.def"]) == 2
    assert "the definitions come from the copybook records.cpy" in capsys.readouterr().err


def test_a_copy_member_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("acct.cpy").unlink()

    assert run(GIVEN) != 0
    assert "ACCT" in capsys.readouterr().err
