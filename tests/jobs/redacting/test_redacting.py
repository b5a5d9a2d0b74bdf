"""A redacted trail keeps every length, type, token and structure, and none of the values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from trailgate import read_trail
from trailgate.cli.commands.demo import unpack
from trailgate.cli.main import run
from trailgate.errors import DecodeError, StorageError
from trailgate.jobs.redacting import redact_trail
from trailgate.storage.files.trail_files import find_single_file
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.trail.annotation.elements import DamagedSpan, ExplainedBytes, ExplainedToken, Part
from trailgate.trail.annotation.redaction import Redactor
from trailgate.trail.annotation.trail_file import explain_trail

CAPTURE = ("capture", "--properties", "dirprm/shop.properties", "--from", "messages")
RELEASES = ("9.5", "11.2", "12.2", "19.1")
WORDS = ("SEATTLE", "ROCKY", "PROPELLER", "1249.50", "LEATHER", "FLYER")


@pytest.fixture(params=RELEASES)
def trail(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the sample's trail in a release's format, in the working folder."""
    monkeypatch.chdir(tmp_path)
    unpack(Path())
    assert run([*CAPTURE, "--to", "dirdat/ot", "--format-release", request.param]) == 0
    return "dirdat/ot"


def shape(part: Part | DamagedSpan) -> object:
    """Return an object of a trail without the bytes of its values."""
    if isinstance(part, DamagedSpan):
        return part.problem
    if isinstance(part, ExplainedBytes):
        return part.offset, len(part.raw), part.role, part.problem
    return part.path, part.frame, part.trailer, [shape(inner) for inner in part.parts]


def objects(path: str) -> list[ExplainedToken | DamagedSpan]:
    with TrailFileReader(find_single_file(path)) as reader:
        return list(explain_trail(reader.read, reader.file.size))


def test_structure_stays_and_no_value_does(trail: str) -> None:
    summary = redact_trail(trail, "sample/ot")

    before, after = objects(f"{trail}000000000"), objects("sample/ot000000000")
    assert list(map(shape, after)) == list(map(shape, before))
    assert summary.left_out == {}
    data = Path("sample/ot000000000").read_bytes()
    assert [word for word in WORDS if word.encode() in data] == []
    assert [word for word in WORDS if word.encode() in Path("dirdat/ot000000000").read_bytes()]


def test_the_result_is_a_whole_trail_with_the_same_operations(trail: str) -> None:
    redact_trail(trail, "sample/ot")

    assert run(["check", "sample/ot"]) == 0
    columns = ["table", "op_type", "op_ts", "tx_id", "tx_ind", "position"]
    before, after = (read_trail(p).read_all() for p in (trail, "sample/ot"))
    assert after.select(columns) == before.select(columns)
    names = [[list(dict(row or [])) for row in t["after"].to_pylist()] for t in (before, after)]
    assert names[0] == names[1]


def test_a_value_becomes_the_same_one_wherever_it_occurs(trail: str) -> None:
    redact_trail(trail, "sample/ot", key="k")
    redact_trail(trail, "again/ot", key="k")
    redact_trail(trail, "other/ot", key="l")

    one, two, other = (
        Path(f"{name}/ot000000000").read_bytes() for name in ("sample", "again", "other")
    )
    assert one == two != other
    customers = read_trail("sample/ot", table="GG.JMSCAP_TCUSTMER").read_all()
    orders = read_trail("sample/ot", table="GG.SHOP_ORDERS").read_all()
    known = {code.strip() for code in customers["CUST_CODE"].to_pylist()}
    assert {code.strip() for code in orders["CUST_CODE"].to_pylist() if code} <= known


def test_names_are_replaced_where_that_is_asked_for(trail: str) -> None:
    summary = redact_trail(trail, "sample/ot", names=True)

    data = Path("sample/ot000000000").read_bytes()
    assert b"TCUSTMER" not in data
    assert b"CUST_CODE" not in data
    definitions = "" if not Path("sample/ot.def").exists() else Path("sample/ot.def").read_text()
    assert "CUST_CODE" not in definitions
    assert run(["check", "sample/ot"]) == 0
    assert all("not public" in reason for reason in summary.left_out)
    tables = set(read_trail("sample/ot").read_all()["table"].to_pylist())
    assert len(tables) == 2


def test_unknown_records_are_skipped_and_named(tmp_path: Path) -> None:
    source = tmp_path / "ot000000000"
    name = b"S.T\0"
    head = bytes([0x45, 0, 0, 0x41, 0, 4, 5, 255]) + bytes(20) + bytes([3, 0x52, 0, 0, 0, 1])
    parts = b"".join(
        bytes((code, 0)) + len(raw).to_bytes(2, "big") + raw
        for code, raw in ((0x48, head + name), (0x44, b"\x99\x99\x99\x99"), (0x54, b"\x7a\0\0\2hi"))
    )
    size = (len(parts) + 8).to_bytes(2, "big")
    source.write_bytes(b"G\x01" + size + parts + b"Z\x01" + size)

    summary = redact_trail(tmp_path / "ot", tmp_path / "sample/ot")

    assert summary.records == 0
    assert summary.left_out == {"Insert: the layout of its data is not public": 1}
    assert Path(summary.files[0]).read_bytes() == b""


def test_at_most_so_many_records_are_written(trail: str) -> None:
    assert redact_trail(trail, "sample/ot", records=3).records == 3
    assert len([one for one in objects("sample/ot000000000") if one.path == (0x47,)]) == 3  # type: ignore[union-attr]


def test_a_file_that_is_there_stays(trail: str) -> None:
    before = Path("dirdat/ot000000000").read_bytes()

    with pytest.raises(StorageError, match="the file exists already"):
        redact_trail(trail, trail)
    assert Path("dirdat/ot000000000").read_bytes() == before


def test_the_command_prints_what_it_did(trail: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert run(["redact", trail, "--to", "sample/ot", "--json"]) == 0

    summary = json.loads(capsys.readouterr().out)
    assert summary["files"] == ["sample/ot000000000"]
    assert summary["records"] > 0


@settings(max_examples=examples(200))
@given(st.binary(max_size=40) | st.text(max_size=20).map(str.encode), st.booleans())
def test_any_value_becomes_one_of_the_same_length_and_form(raw: bytes, dated: bool) -> None:
    value = b"2026-01-31:10:11:12.5" if dated else raw
    redaction = Redactor(b"key")

    found = redaction.value(value)

    assert len(found) == len(value)
    assert redaction.value(value) == found
    if value.isascii() and value.decode().isalnum() and len(value) > 6:
        assert found != value
        assert [chr(c).isdigit() for c in found] == [chr(c).isdigit() for c in value]


@settings(max_examples=examples(100))
@given(st.binary(max_size=300))
def test_any_file_gives_a_trail_or_an_error_of_ours(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("any")
    (folder / "ot000000000").write_bytes(data)

    try:
        summary = redact_trail(folder / "ot", folder / "sample/ot")
    except DecodeError:
        return
    assert data == b"" or summary.left_out or summary.records
