"""Statements of Oracle's appendix on the trail that the tests of the rooms do not show one by one."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from live_source import write
from logdump.sessions import answers, opened
from logdump.trails import TRAILS, dml
from sample_trail import Op
from trailgate.cli.main import run
from trailgate.logdump.result_output import text_lines
from trailgate.model.tables import Definitions
from trailgate.storage.live.checkpoint import read_checkpoint
from trailgate.storage.live.live_trail import AppendOptions
from trailgate.trail.format.file_header import FileHeader, TrailInfo, decode_header, encode_header
from trailgate.trail.records.record import encode_record
from trailgate.trail.writing.file_headers import encode_file_start
from trailgate.trail.writing.trail_format import TrailFormat

# Table H-2: the numbers, and the names that Logdump has for them.
TYPES = {
    1: "TMFAbort",
    2: "TMFCommit",
    3: "Delete",
    4: "EndRollback",
    5: "Insert",
    6: "Prepared",
    7: "TMF-Shutdown",
    8: "TransBegin",
    9: "TransRelease",
    10: "Update",
    11: "UpdateComp",
    12: "FileAlter",
    13: "FileCreate",
    14: "FilePurge",
    15: "FieldComp",
    16: "FileRename",
    17: "AuxPointer",
    18: "NetworkCommit",
    19: "NetworkAbort",
    90: "SQLCol",
    100: "GGSPurgedata",
    101: "Purge",
    102: "Create",
    103: "Alter",
    104: "Rename",
    105: "Setmode",
    106: "ChangeLabel",
    107: "Control",
    115: "GGSPKUpdate",
    116: "LargeObject",
    117: "GGSKeyFieldComp32",
    132: "SequenceOp",
    134: "GGSUnifiedUpdate",
    135: "GGSUnifiedPKUpdate",
    160: "DDLOP",
    161: "RecordFragment",
    200: "BulkIO",
    201: "Trace201",
    202: "Trace202",
    203: "Trace203",
    204: "Trace204",
    205: "GGSComment",
    249: "Trace249",
    250: "Trace250",
    251: "Trace251",
    252: "Trace252",
    253: "Trace253",
    254: "Trace254",
}
# Names of the table that are not those in the records' lines.
MANUAL_NAMES = {
    1: "Abort",
    2: "Commit",
    100: "Purgedata",
    115: "KeyFieldComp",
    116: "LOB",
    117: "KeyFieldComp32",
    160: "DDL_Op",
}
TOKENS = {
    "TKN-HOST": "syshq",
    "TKN-GROUP": "EXTORA",
    "TKN-BA_IND": "AFTER",
    "TKN-COMMIT_TS": "2011-01-24 17:08:59.000000",
    "TKN-POS": "3604496",
    "TKN-RBA": "4058",
    "TKN-TABLE": "SOURCE.CUSTOMER",
    "TKN-OPTYPE": "INSERT",
    "TKN-LENGTH": "57",
    "TKN-TRAN_IND": "BEGIN",
}

HEADER_FIELDS: dict[str, tuple[str, int, str]] = {
    "FormatType F": ("format", ord("F"), "FormatType :     F  (x46)"),
    "FormatType R": ("format", ord("R"), "FormatType :     R  (x52)"),
    "OrigNode": ("node", 17, "OrigNode   :    17  (x11)"),
    "UndoFlag": ("undo", 1, "UndoFlag   :     .  (x01)"),
    "SyskeyLen": ("syskey_length", 8, "SyskeyLen  :     8  (x08)"),
    "Incomplete": ("incomplete", 1, "Incomplete :     .  (x01)"),
    "AuditRBA": ("audit_rba", 4711, "AuditRBA   :       4711"),
    "AuditPos": ("audit_pos", 3604496, "AuditPos   : 3604496"),
    "Continued Y": ("continued", 1, "Continued  :     Y  (x01)"),
    "Continued N": ("continued", 0, "Continued  :     N  (x00)"),
    "RecCount": ("record_count", 4, "RecCount   :     4  (x04)"),
    "Partition": ("partition", 4, "Partition  :     .  (x04)"),
    "BeforeAfter B": ("image", ord("B"), "BeforeAfter:     B  (x42)"),
    "BeforeAfter A": ("image", ord("A"), "BeforeAfter:     A  (x41)"),
    "TransInd 0": ("trans_ind", 0, "TransInd   :     .  (x00)"),
    "TransInd 1": ("trans_ind", 1, "TransInd   :     .  (x01)"),
    "TransInd 2": ("trans_ind", 2, "TransInd   :     .  (x02)"),
    "TransInd 3": ("trans_ind", 3, "TransInd   :     .  (x03)"),
}


def printed(folder: Path, raw: bytes, *commands: str) -> str:
    """Return what Logdump prints of a file."""
    results = answers(opened(folder, raw), *commands)
    return "\n".join(line for result in results for line in text_lines(result))


def file_of(*records: bytes) -> bytes:
    return encode_header(FileHeader()) + b"".join(records)


@pytest.mark.parametrize(("code", "name"), TYPES.items())
def test_an_operation_type_has_its_name(code: int, name: str, tmp_path: Path) -> None:
    """In SHOW RECTYPE, in the record's line, as IOType, and in filters."""
    raw = file_of(encode_record(dml(code, b"", 0)))

    shown = printed(tmp_path, raw, "SHOW RECTYPE", "GHDR ON", f"FILTER RECTYPE {name}", "N")

    table, _, shown_record = shown.partition("Hdr-Ind")
    assert [line.split() for line in table.splitlines() if line.split()[:1] == [str(code)]] == [
        [str(code), name]
    ]
    assert f"IOType     : {code:>5}  (x{code:02x})" in shown_record
    assert f"2026/01/01 00:00:00.000.000 {name:<20} Len     0" in shown_record


@pytest.mark.parametrize(("code", "name"), MANUAL_NAMES.items())
def test_an_operation_type_is_found_by_its_name_in_the_manual(
    code: int, name: str, tmp_path: Path
) -> None:
    raw = file_of(encode_record(dml(5, b"", 0)), encode_record(dml(code, b"", 0)))

    shown = printed(tmp_path, raw, "GHDR ON", f"SFT {name}")

    assert f"IOType     : {code:>5}  (x{code:02x})" in shown


def test_the_appendixs_session_is_typed_as_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dirdat").mkdir()
    (tmp_path / "dirdat/tr000000000").write_bytes(TRAILS["partitioned"]())
    monkeypatch.chdir(tmp_path)
    typed = "ghdr on\ndetail data\nopen ./dirdat/tr000000000\nn 200\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))

    assert run(["logdump"]) == 0

    out = capsys.readouterr().out
    assert "Partition Name: P1  Partition ID: 75,234  Flags: x00000001" in out
    assert "Name: TKGGU1.T1  (Partition: P1, TDR/PNR Index: 1/2)" in out
    assert "TDR/PNR idx:   (001, 002)     AuditPos   : 13287580" in out
    assert "Column     1 (x0001), Len     5 (x0005)" in out


def test_the_user_tokens_of_the_appendix_are_shown_by_name_and_value(tmp_path: Path) -> None:
    user = "".join(f"{name}\0{value}\0" for name, value in TOKENS.items()).encode()
    raw = file_of(encode_record(dml(5, b"", 0, user=user)))

    shown = printed(tmp_path, raw, "USERTOKEN DETAIL", "N").splitlines()

    pairs = [line.partition(":") for line in shown if line.startswith("TKN-")]
    assert {name.strip(): value.strip() for name, _, value in pairs} == TOKENS


def test_a_record_has_header_data_and_user_tokens_in_this_order(tmp_path: Path) -> None:
    raw = file_of(encode_record(dml(5, b"\0\0\0\4\0\0\0\0", 0, user=b"A\0b\0")))

    shown = printed(tmp_path, raw, "HEADERTOKEN ON", "N")

    areas = [line.split()[1] for line in shown.splitlines() if line.startswith("TokenID")]
    assert areas == ["x47", "x48", "x44", "x54", "x55", "x5a"]


@pytest.mark.parametrize("name", HEADER_FIELDS)
def test_a_header_field_is_shown_with_its_value(name: str, tmp_path: Path) -> None:
    field, value, line = HEADER_FIELDS[name]
    given = replace(dml(15, b"\0\0\0\4\0\0\0\0", 0), **{field: value})  # type: ignore[arg-type]

    assert line in printed(tmp_path, file_of(encode_record(given)), "GHDR ON", "N")


def test_the_length_shown_is_that_of_the_data(tmp_path: Path) -> None:
    raw = file_of(encode_record(dml(5, b"\0\0\0\4\0\0\0\0", 0)))

    shown = printed(tmp_path, raw, "GHDR ON", "N")

    assert "RecLength  :     8  (x0008)   IO Time    : 2026/01/01 00:00:00.000.000" in shown


def test_a_trail_from_before_release_10_is_overwritten_after_its_last_commit(
    tmp_path: Path,
) -> None:
    prefix, options = tmp_path / "ot", AppendOptions(trail_format=TrailFormat(0))
    write(prefix, [[Op("I", 1)]], options)
    path = Path(f"{prefix}000000000")
    committed = path.read_bytes()
    path.write_bytes(committed + encode_record(dml(5, b"", 0, name="MY.ORDERS", trans_ind=0)))

    write(prefix, [[Op("I", 1)]], options)

    known = read_checkpoint(str(prefix))
    assert known is not None
    assert known.offset == len(committed)
    assert path.read_bytes() == committed


def test_a_header_of_level_7_has_only_tokens_whose_ids_are_public() -> None:
    form = TrailFormat.from_options("19.1")
    info = TrailInfo(compatibility=form.level)

    header, _ = decode_header(encode_file_start(FileHeader(trail=info), form, Definitions(())))

    assert header.trail.compatibility == 7
    assert header.unknown == ()
