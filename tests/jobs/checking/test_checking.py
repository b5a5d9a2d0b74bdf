"""Checking: a good trail is whole, and whatever is done to it is found where it was done."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capture_place import DEFINITIONS, Place, row
from damaged_trails import (
    FIRST,
    LAST,
    MIDDLE,
    ONLY,
    by_index,
    change,
    restart,
    sample,
    transaction,
    update,
    write_files,
)
from laws import sampled
from sample_trail import Op, write_trail
from trailgate.errors import StorageError
from trailgate.jobs.capture.loading import load_capture
from trailgate.jobs.trail_check import CheckReport, check_trail
from trailgate.trail.findings import KINDS, Finding
from trailgate.trail.format.tokens import ByteOrder
from trailgate.trail.records.record import TrailRecord, encode_record


def found(report: CheckReport) -> list[tuple[str, str, int | None]]:
    return [(one.kind, one.file, one.offset) for one in report.findings]


def checked(folder: Path, *files: list[TrailRecord]) -> list[Finding]:
    write_files(folder / "ot", files)
    return list(check_trail(str(folder / "ot")).findings)


def kinds(findings: list[Finding]) -> list[str]:
    return [one.kind for one in findings]


@pytest.mark.parametrize("headers", [True, False])
@pytest.mark.parametrize("order", ByteOrder)
def test_a_good_trail_is_whole(tmp_path: Path, order: ByteOrder, headers: bool) -> None:
    paths = write_files(tmp_path / "ot", sample(order), headers=headers)

    report = check_trail(str(tmp_path / "ot"))

    assert kinds(list(report.findings)) == ["abandoned"]
    assert report.whole
    assert [file.name for file in report.files] == [path.name for path in paths]
    assert [file.bytes for file in report.files] == [path.stat().st_size for path in paths]
    assert [file.records for file in report.files] == [10, 16, 4]
    assert [file.transactions for file in report.files] == [4, 5, 2]
    assert [file.operations for file in report.files] == [8, 13, 4]
    assert report.files[0].by_type == {"Insert": 7, "FieldComp": 2, "LargeObject": 1}


def test_a_trail_of_ours_is_whole_with_its_manifest(tmp_path: Path) -> None:
    write_trail(tmp_path / "ot", [[[Op("U", 1, "new", "old"), Op("D", 1)]], [[Op("I", 9)]]])
    files = sorted(tmp_path.glob("ot0*"))
    entries: list[dict[str, Any]] = [
        {"name": path.name, "number": i, "size": path.stat().st_size, "operations": 2 - i}
        for i, path in enumerate(files)
    ]
    manifest = tmp_path / "ot.manifest.json"
    manifest.write_text(json.dumps({"files": entries}))

    assert check_trail(str(tmp_path / "ot")).whole

    entries[1]["operations"] = 7
    entries[0]["size"] += 1
    manifest.write_text(json.dumps({"files": [*entries, {"name": "ot000000009", "size": 1}]}))
    report = check_trail(str(tmp_path / "ot"))
    assert ("manifest", "ot000000000", None) in found(report)
    assert ("manifest", "ot000000009", None) in found(report)
    assert ("count", "ot000000001", None) in found(report)


def test_a_trail_that_was_begun_and_has_no_files_says_so(tmp_path: Path) -> None:
    (tmp_path / "ot.manifest.json").write_text(json.dumps({"files": []}))
    report = check_trail(str(tmp_path / "ot"))
    assert report.whole
    assert kinds(list(report.findings)) == ["no files"]


def test_damage_is_reported_with_its_offset_its_bytes_and_the_next_record(tmp_path: Path) -> None:
    one = [encode_record(record) for record in transaction(0, 3)]
    path = tmp_path / "ot000000000"
    path.write_bytes(one[0] + one[1][:-1] + b"X" + one[2] + encode_record(change(1, ONLY)))

    report = check_trail(str(tmp_path / "ot"))
    first, second = report.findings[:2]

    assert (first.kind, first.offset, first.length) == ("framing", len(one[0]), len(one[1]))
    assert first.next == len(one[0]) + len(one[1])
    assert first.before == one[0][-32:]
    assert first.raw == one[1][:64]
    assert (second.kind, second.offset) == ("headless", first.next)
    assert kinds(list(report.findings))[2:] == ["no definitions"]


@pytest.mark.parametrize("headers", [True, False])
def test_a_cut_file_is_not_whole(tmp_path: Path, headers: bool) -> None:
    (path,) = write_files(tmp_path / "ot", [transaction(0, 3)], headers=headers, closed=False)
    path.write_bytes(path.read_bytes()[:-1])

    report = check_trail(str(tmp_path / "ot"))

    assert [kind for kind, *_ in found(report)] == ["cut"]


Damage = Callable[[TrailRecord], TrailRecord]
DAMAGES: dict[str, tuple[str, Damage]] = {
    "a type that is not known": ("type", lambda r: replace(r, io_type=77)),
    "a type that is not read": ("not read", lambda r: replace(r, io_type=1)),
    "an insert turned into DDL": ("mistyped", lambda r: replace(r, io_type=160)),
    "an insert turned into a restart": ("mistyped", lambda r: replace(r, io_type=150)),
    "an insert turned into a restart in order": ("mistyped", lambda r: replace(r, io_type=151)),
    "an insert turned into a sequence": ("mistyped", lambda r: replace(r, io_type=132)),
    "an insert turned into a comment": ("mistyped", lambda r: replace(r, io_type=205)),
    "an insert turned into metadata": ("mistyped", lambda r: replace(r, io_type=170)),
    "an insert with a before image": ("image", lambda r: replace(r, image=ord("B"))),
    "no image": ("image", lambda r: replace(r, image=ord("C"))),
    "a TransInd above 3": ("indicator", lambda r: replace(r, trans_ind=9, audit_rba=0xFFFFFFFF)),
    "a FormatType": ("format", lambda r: replace(r, format=ord("X"))),
    "a time before 1990": ("io time", lambda r: replace(r, io_time=0)),
    "a layout without index and length": (
        "layout",
        lambda r: replace(r, partition=0, io_type=15),
    ),
    "a full image of columns of any length": ("reading", lambda r: replace(r, partition=0)),
    "columns beyond the data": ("columns", lambda r: replace(r, data=b"\0\0\xff\0\0\0")),
    "half a column": ("columns", lambda r: replace(r, data=b"\0\0\0")),
    "a column without indicator": ("columns", lambda r: replace(r, data=b"\0\0\0\0")),
    "a key update without key": ("columns", lambda r: replace(r, io_type=115, data=b"\0\x09")),
    "a piece of another length": ("piece", lambda r: replace(r, io_type=116, data=bytes(21))),
    "a piece alone": ("orphan", lambda r: replace(r, io_type=116, data=bytes(20))),
    "a fragment alone": ("orphan", lambda r: replace(r, io_type=161)),
    "a table without definition": ("table", lambda r: replace(r, name="MY.OTHERS")),
    "an unknown table index": ("index", lambda r: by_index(r, 3)),
    "a lone before image": ("pair", lambda r: replace(r, io_type=15, image=ord("B"))),
    "metadata of no kind": ("metadata", lambda r: replace(r, io_type=170, node=9, partition=0)),
    "an id that is no text": (
        "tokens",
        lambda r: replace(r, tokens=(replace((r.tokens or ())[0], payload=b"\xff"),)),
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_bad_record_is_found(tmp_path: Path, name: str) -> None:
    kind, damage = DAMAGES[name]

    findings = checked(tmp_path, [change(0, ONLY), damage(change(1, ONLY)), change(2, ONLY)])

    assert kind in kinds(findings)
    assert {one.offset for one in findings if one.offset} == {
        len((tmp_path / "ot000000000").read_bytes())
        - len(encode_record(damage(change(1, ONLY))))
        - len(encode_record(change(2, ONLY)))
    }


@pytest.mark.parametrize(
    ("at", "kind"),
    [(4, "unreadable"), (8, "unreadable"), (13, "parts"), (7, "unreadable")],
)
def test_a_flipped_byte_of_structure_is_found(tmp_path: Path, at: int, kind: str) -> None:
    records = [bytearray(encode_record(change(i, ONLY))) for i in range(3)]
    records[1][at] ^= 0x41
    (tmp_path / "ot000000000").write_bytes(b"".join(records))

    report = check_trail(str(tmp_path / "ot"))

    assert (kind, "ot000000000", len(records[0])) in found(report)


DDL = TrailRecord(160, "", b",C1='create table t'", node=0)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([change(0, FIRST), change(1, ONLY)], ["unended"]),
        ([change(0, ONLY), change(0, LAST)], ["headless"]),
        ([change(0, ONLY), change(1, FIRST), change(1, MIDDLE)], ["open"]),
        ([change(0, FIRST), restart(), change(0, ONLY)], ["abandoned"]),
        ([change(0, FIRST), restart(), change(0, LAST)], ["abandoned", "headless"]),
        ([change(0, FIRST), restart(io_type=151), change(0, ONLY)], ["unended"]),
        ([change(0, FIRST), restart(io_type=151), change(0, LAST)], []),
        ([change(5, ONLY), change(4, ONLY)], ["csn order"]),
        ([change(0, FIRST), DDL, change(0, LAST)], []),
        ([change(0, FIRST), replace(change(0, ONLY), tokens=())], ["unended", "torn"]),
        ([*update(0)[:1], *update(0)[2:]], ["pair"]),
        ([replace(update(0)[0], trans_ind=LAST), *update(0)[1:]], ["headless", "headless", "pair"]),
    ],
)
def test_transactions_out_of_order_are_found(
    tmp_path: Path, records: list[TrailRecord], expected: list[str]
) -> None:
    assert sorted(kinds(checked(tmp_path, records))) == sorted(expected)


def test_a_trail_may_begin_inside_a_transaction(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "ot", [[change(0, FIRST)], [change(0, LAST), change(1, ONLY)]])
    paths[0].unlink()

    report = check_trail(str(tmp_path / "ot"))

    assert kinds(list(report.findings)) == ["first", "earlier"]
    assert report.whole


def test_files_out_of_order_are_found(tmp_path: Path) -> None:
    paths = write_files(tmp_path / "ot", [[change(i, ONLY)] for i in range(3)])
    paths[1].rename(tmp_path / "ot000007")

    report = check_trail(str(tmp_path / "ot"))

    assert ("gap", "ot000000002", None) in found(report)
    assert ("digits", "", None) in found(report)
    assert ("number", "ot000007", None) in found(report)


def test_a_header_that_contradicts_its_records_is_found(tmp_path: Path) -> None:
    (path,) = write_files(tmp_path / "ot", [[change(0, ONLY)]])
    path.write_bytes(path.read_bytes() + encode_record(change(1, ONLY)))

    assert found(check_trail(str(path))) == [("size", path.name, None)]


def test_a_bad_header_is_found_and_the_records_behind_it(tmp_path: Path) -> None:
    (path,) = write_files(tmp_path / "ot", [transaction(0, 3)])
    whole = bytearray(path.read_bytes())
    for place in (0, 2, 7, 12):
        path.write_bytes(bytes([*whole[:place], whole[place] ^ 0x55, *whole[place + 1 :]]))
        report = check_trail(str(path))

        assert "header" in kinds(list(report.findings))
        assert report.files[0].records == 3


def test_many_findings_of_a_kind_are_counted(tmp_path: Path) -> None:
    findings = checked(tmp_path, [replace(change(i, ONLY), io_type=77) for i in range(100)])

    assert kinds(findings) == ["type"] * 5
    assert [one.more for one in findings] == [0, 0, 0, 0, 95]


def test_chunks_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = sample()
    paths = write_files(tmp_path / "ot", files)
    paths[1].write_bytes(paths[1].read_bytes()[:-5])
    expected = check_trail(str(tmp_path / "ot"))
    # A chunk must hold the longest record of these.
    monkeypatch.setattr("trailgate.jobs.check_steps.CHUNK", 400)

    report = check_trail(str(tmp_path / "ot"))

    assert report.files == expected.files
    assert sorted(found(report)) == sorted(found(expected))


def test_damage_in_a_transaction_that_is_continued_is_found_in_chunks_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_files(tmp_path / "ot", sample())[1]
    good = path.read_bytes()
    begin = int.from_bytes(good[2:4], "big")
    for at in sampled(range(begin, len(good)), 60, "portions"):
        path.write_bytes(good[:at] + bytes((good[at] ^ 4,)) + good[at + 1 :])
        whole = check_trail(str(tmp_path / "ot")).whole
        with monkeypatch.context() as patch:
            patch.setattr("trailgate.jobs.check_steps.CHUNK", 300)

            assert check_trail(str(tmp_path / "ot")).whole == whole, at


def test_an_operation_may_be_longer_than_several_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trailgate.jobs.check_steps.CHUNK", 3_000)
    place = Place(tmp_path)
    (tmp_path / "orders.def").write_text(DEFINITIONS.replace("60", "40000"))
    place.capture = load_capture(tmp_path / "p.properties")
    place.write(f"I,MY.ORDERS,2026-01-01,1,{'x' * 40_000}\n", row(2))
    place.run("ot")

    report = check_trail(str(tmp_path / "ot"))

    assert report.whole
    assert report.findings == ()
    assert [file.operations for file in report.files] == [2]


def test_nothing_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no trail files here"):
        check_trail(str(tmp_path / "ot"))


def test_every_kind_has_a_name_of_its_own_and_a_statement() -> None:
    assert all(kind.name == name and kind.statement for name, kind in KINDS.items())


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=2))
def test_any_bytes_give_findings(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    for number, content in enumerate(contents):
        (folder / f"ot{number:09}").write_bytes(content)

    report = check_trail(str(folder / "ot"))

    assert all(file.records for file in report.files) or not report.whole


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_trail_is_found_by_address_folder_or_file(tmp_path: Path, scheme: str) -> None:
    (path,) = write_files(tmp_path / "ot", [[change(0, ONLY)]])

    for asked in (tmp_path / "ot", tmp_path, path):
        report = check_trail(f"{scheme}{asked}")
        assert report.whole
        assert [file.name for file in report.files] == [path.name]
