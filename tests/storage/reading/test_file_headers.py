"""File headers with any byte changed or missing: every command reads them, or raises an error of ours."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from damaged_trails import ONLY, by_index, change, metadata
from laws import examples, sampled
from sample_trail import NOTES, Op, write_trail
from trailgate.cli.main import main, run
from trailgate.errors import DefinitionError, TrailgateError, TruncatedError
from trailgate.jobs.trail_check import check_trail
from trailgate.model.positions import long_position
from trailgate.storage.files.trail_files import TrailFile, find_trail
from trailgate.storage.reading.splits import NoticeLog
from trailgate.storage.reading.trail_definitions import (
    TrailDefinitions,
    find_first_ddl_record,
    find_table,
    list_defined_tables,
    list_latest_tables,
)
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.storage.reading.trails import read_trail
from trailgate.trail.format.file_header import FileHeader, TrailInfo, decode_header, encode_header
from trailgate.trail.records.record import encode_record
from trailgate.trail.records.table_metadata import METADATA_LEVEL

COMPATIBILITY_INFO = 21


@pytest.fixture(scope="module")
def trail(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, int]:
    """Return the path of a trail's only file, its bytes, and how many of them are its header."""
    prefix = write_trail(tmp_path_factory.mktemp("headers") / "ot", [[[Op("I", 1)]]])
    path = Path(f"{prefix}000000000")
    good = path.read_bytes()
    return path, good, decode_header(good)[1]


def read_everywhere(path: Path) -> None:
    """Read a trail in every way that looks at its header; errors of ours are answers."""
    prefix, salvaged = str(path)[:-9], path.with_name("salvaged")
    salvaged.mkdir(exist_ok=True)
    ways: tuple[Callable[[], object], ...] = (
        lambda: read_trail(prefix).read_all(),
        lambda: read_trail(prefix, records="all").read_all(),
        lambda: check_trail(prefix, values=True),
        lambda: list_defined_tables(find_trail(prefix)),
    )
    for way in ways:
        with contextlib.suppress(TrailgateError):
            way()
    out = str(salvaged / "zz")
    for command in (
        ["show", prefix],
        ["check", prefix, "--salvage", out],
        ["analyze", prefix],
        ["logdump", "-c", f"open {path}", "-c", "fileheader detail", "-c", "next"],
    ):
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            contextlib.suppress(SystemExit),
        ):
            main(command)
    for made in salvaged.iterdir():
        made.unlink()


def test_a_field_that_must_have_a_value_is_read_as_if_it_were_absent(
    trail: tuple[Path, bytes, int],
) -> None:
    path, good, _ = trail
    changed = good[:COMPATIBILITY_INFO] + b"\xff" + good[COMPATIBILITY_INFO + 1 :]

    header, _ = decode_header(changed)
    absent, _ = decode_header(good)

    assert header.trail.compatibility == absent.trail.compatibility
    assert [field.code for field in header.unknown] == [0x31]
    path.write_bytes(changed)
    try:
        read_everywhere(path)
        assert read_trail(str(path)[:-9]).read_all().num_rows == 1
    finally:
        path.write_bytes(good)


@settings(
    max_examples=examples(8),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_any_byte_of_a_header_gives_a_header_or_an_error_of_ours(
    trail: tuple[Path, bytes, int], data: st.DataObject
) -> None:
    path, good, length = trail
    at = data.draw(st.integers(0, length - 1))
    value = data.draw(st.sampled_from((0, 1, 0x7F, 0x80, 0xFF)) | st.integers(0, 255))
    path.write_bytes(good[:at] + bytes((value,)) + good[at + 1 :])
    try:
        read_everywhere(path)
    finally:
        path.write_bytes(good)


def test_any_info_of_a_header_gives_a_header_or_an_error_of_ours(
    trail: tuple[Path, bytes, int],
) -> None:
    _, good, length = trail
    for at in range(length):
        for value in (0, 1, 0xFF):
            with contextlib.suppress(TrailgateError):
                header, _ = decode_header(good[:at] + bytes((value,)) + good[at + 1 :])
                assert isinstance(header.trail.compatibility, int)
                assert isinstance(header.trail.seqno, int | None)


def test_a_file_that_is_cut_anywhere_is_announced_and_found(
    trail: tuple[Path, bytes, int], caplog: pytest.LogCaptureFixture
) -> None:
    path, good, length = trail
    try:
        inside = (*range(length), *range(length + 1, len(good)))
        for size in sampled(inside, 16, "cut files"):
            caplog.clear()
            path.write_bytes(good[:size])
            with caplog.at_level(logging.WARNING):
                rows = read_trail(str(path)[:-9]).read_all().num_rows
                records = read_trail(str(path)[:-9], records="all").read_all().num_rows

            assert rows == records == 0
            (message,) = set(caplog.messages)
            assert "it is still being written, or the file was cut" in message
            assert not check_trail(str(path)[:-9]).whole, size
    finally:
        path.write_bytes(good)


CUTS = (0, 1, 3, 60, -1)
NEXT = "00000000010000000060"  # inside the last file


@pytest.fixture
def growing(tmp_path: Path) -> tuple[str, Path, bytes]:
    """Return the prefix of a trail of two files that define their tables, its last file, and that one's header."""
    records = b"".join(map(encode_record, (metadata(1), by_index(change(0, ONLY), 1))))
    for number in range(2):
        last = tmp_path / f"ot{number:09}"
        header = encode_header(
            FileHeader(trail=TrailInfo(seqno=number, compatibility=METADATA_LEVEL))
        )
        last.write_bytes(header + records)
    return str(tmp_path / "ot"), last, header


@pytest.mark.parametrize("cut", CUTS)
def test_a_last_file_with_an_unfinished_header_defines_no_tables_yet(
    growing: tuple[str, Path, bytes], cut: int
) -> None:
    prefix, last, header = growing
    last.write_bytes(header[:cut])
    trail = find_trail(prefix)

    assert list_latest_tables(trail, lambda _: False, 1 << 20) == ({NOTES.name}, True)
    assert list_defined_tables(trail) == [NOTES.name]
    assert find_table(trail, NOTES.name).columns == NOTES.columns
    with pytest.raises(DefinitionError):
        find_table(trail, "MY.OTHER")
    found = TrailDefinitions(trail).before(NOTES.name, NEXT)
    assert found is not None
    assert found.columns == NOTES.columns
    assert find_first_ddl_record(trail, trail.begin, trail.end) is None


@pytest.mark.parametrize("cut", CUTS)
def test_patterns_and_parameters_are_obeyed_if_the_last_header_is_unfinished(
    growing: tuple[str, Path, bytes], cut: int, tmp_path: Path
) -> None:
    prefix, last, header = growing
    last.write_bytes(header[:cut])
    parameters = tmp_path / "r.prm"
    parameters.write_text(
        "REPLICAT r\nDDL INCLUDE ALL\nMAP MY.*, TARGET T.*;\nMAP HR.*, TARGET T.*;\n"
    )
    apply = ["apply", prefix, "--params", str(parameters), "--to", f"duckdb:{tmp_path}/t.duckdb"]

    assert read_trail(prefix, tables="HR.*").read_all().num_rows == 0
    assert read_trail(prefix, table=NOTES.name).read_all().num_rows == 1
    for command in (
        ["show", prefix, "--tables", "HR.*"],
        ["publish", prefix, "--tables", "HR.*", "--to", str(tmp_path / "out")],
        ["sql", f"select * from '{prefix}:{NOTES.name}'"],
        apply,
        apply,  # from the stored position
    ):
        assert run(command) == 0, command


def test_definitions_of_a_file_are_found_once_its_header_is_complete(
    growing: tuple[str, Path, bytes],
) -> None:
    prefix, last, _ = growing
    whole = last.read_bytes()
    last.write_bytes(whole[:60])
    definitions = TrailDefinitions(find_trail(prefix))
    definitions.before("MY.OTHER", NEXT)
    last.write_bytes(whole.replace(b"TEXT", b"LATE"))

    found = definitions.before(NOTES.name, long_position(1, len(whole)))

    assert found is not None
    assert [column.name for column in found.columns] == ["ID", "LATE"]


def test_an_unfinished_header_before_the_last_file_is_an_error(
    growing: tuple[str, Path, bytes], tmp_path: Path
) -> None:
    prefix, _, header = growing
    (tmp_path / "ot000000000").write_bytes(header[:60])

    for search in (list_defined_tables, lambda trail: find_table(trail, NOTES.name)):
        with pytest.raises(TruncatedError):
            search(find_trail(prefix))


def test_a_header_that_was_completed_after_the_listing_is_not_announced(
    trail: tuple[Path, bytes, int], caplog: pytest.LogCaptureFixture
) -> None:
    path, good, length = trail
    header, _ = decode_header(good)
    for stated, announced in ((len(good), 0), (len(good) + 1, 1)):
        caplog.clear()
        whole = replace(header, trail=replace(header.trail, file_size=stated))
        path.write_bytes(encode_header(whole) + good[length:])
        try:
            with (
                caplog.at_level(logging.WARNING),
                TrailFileReader(TrailFile(str(path), 0, len(good) - 20)) as reader,
            ):
                NoticeLog().of_header(reader)
        finally:
            path.write_bytes(good)
        assert len(caplog.messages) == announced
