"""Files of records are read whole, however they are split and in whatever chunks."""

from __future__ import annotations

import bz2
import gzip
import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from framed_files import frame
from laws import examples
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.errors import DecodeError, StorageError, TruncatedError
from trailgate.mainframe.files import record_files
from trailgate.mainframe.files.record_files import (
    RecordFile,
    RecordSplit,
    SplitSearch,
    find_record_files,
    plan_record_splits,
    read_record_split,
)

KINDS = {
    "fixed": Framing(FrameKind.FIXED, length=4),
    "line": Framing(FrameKind.LINE),
    "crlf": Framing(FrameKind.LINE, delimiter=b"\r\n"),
    "rdw": Framing(FrameKind.RDW),
    "bdw": Framing(FrameKind.BDW),
    "spanned": Framing(FrameKind.SPANNED),
}


def read(path: Path, framing: Framing, split: int = 1 << 20, chunk: int = 1 << 20) -> list[bytes]:
    found = []
    for own in plan_record_splits(find_record_files(path), framing, split):
        for part in read_record_split(own, framing, chunk):
            data = part.data.to_pybytes()
            places = zip(part.starts.tolist(), part.ends.tolist(), strict=True)
            found += [data[begin:end] for begin, end in places]
    return found


@settings(max_examples=examples(150), deadline=None)
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.binary(min_size=4, max_size=4).filter(lambda b: not {10, 13} & set(b)), max_size=9),
    st.tuples(st.integers(1, 30), st.integers(1, 20)),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_how_a_file_is_cut_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    kind: str,
    records: list[bytes],
    sizes: tuple[int, int],
    skipped: tuple[int, int],
) -> None:
    framing = replace(KINDS[kind], skip_first=skipped[0], skip_last=skipped[1])
    path = tmp_path_factory.mktemp("records") / "data"
    path.write_bytes(frame(records, framing))

    found = read(path, framing, *sizes)

    assert found == records[skipped[0] : len(records) - skipped[1]]


DESCRIBED = {
    "rdw": Framing(FrameKind.RDW, most=12),
    "little": Framing(FrameKind.RDW, most=12, little=True, adjustment=4),
    "twisted": Framing(FrameKind.RDW, most=12, twisted=True),
    "bdw": Framing(FrameKind.BDW),
}
BLOCK = 40  # bytes of the longest block in these files
# Bytes of records that look like records.
LIKE_RECORDS = [
    b"\0\5\0\0",
    b"\0\4\0\0",
    b"\5\0\0\0",
    b"\0\0\0\4",
    b"\0\x08\0\0",
    b"\0",
    b"\4",
    b"ab",
]


@st.composite
def hostile_files(draw: st.DrawFn) -> tuple[Framing, list[bytes], bytes]:
    """Draw records that are full of words like those before records, and a file of them."""
    framing = DESCRIBED[draw(st.sampled_from(sorted(DESCRIBED)))]
    parts = st.lists(st.sampled_from(LIKE_RECORDS), max_size=3)
    few = draw(st.lists(parts.map(b"".join), min_size=1, max_size=6))
    records = [*few, *draw(st.lists(st.sampled_from(few), max_size=20))] * draw(st.integers(1, 60))
    size = 2 if framing.kind is FrameKind.BDW else len(records)
    blocks = [frame(records[at : at + size], framing) for at in range(0, len(records), size)]
    return framing, records, b"".join(blocks)


@contextmanager
def short_blocks() -> Iterator[None]:
    """Take blocks to be short here, so that small files have borders that are searched."""
    longest = vars(Framing)["longest"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Framing,
            "longest",
            property(lambda f: BLOCK if f.kind is FrameKind.BDW else longest.fget(f)),
        )
        yield


@settings(max_examples=examples(300), deadline=None)
@given(hostile_files(), st.integers(1, 3_000), st.integers(1, 100))
def test_any_splits_have_the_records_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[Framing, list[bytes], bytes],
    split: int,
    chunk: int,
) -> None:
    framing, records, data = drawn
    path = tmp_path_factory.mktemp("records") / "data"
    path.write_bytes(data)

    with short_blocks():
        assert read(path, framing, split, chunk) == records


@settings(max_examples=examples(200), deadline=None)
@given(hostile_files(), st.integers(500, 2_000), st.data())
def test_damage_is_found_in_splits_where_it_is_found_in_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[Framing, list[bytes], bytes],
    split: int,
    data: st.DataObject,
) -> None:
    framing, _, whole = drawn
    path = tmp_path_factory.mktemp("records") / "data"
    at = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(whole[:at] + data.draw(st.sampled_from(LIKE_RECORDS)) + whole[at + 4 :])

    with short_blocks():
        assert outcome(path, framing, split) == outcome(path, framing, 1 << 20)


@pytest.mark.parametrize("kind", [FrameKind.RDW, FrameKind.BDW])
def test_splits_are_found_by_the_words_around_without_reading_the_file(
    tmp_path: Path, kind: FrameKind
) -> None:
    framing, path = Framing(kind), tmp_path / "data"
    block = [random.Random(2).randbytes(size) for size in range(90, 390, 3)]
    path.write_bytes(frame(block, framing) * 400)

    splits = plan_record_splits(find_record_files(path), framing, 3_400_000)

    assert len(splits) == 3
    assert [split.first for split in splits] == [0, None, None]
    assert [a.end for a in splits[:-1]] == [b.start for b in splits[1:]]
    found = [part for own in splits for part in read_record_split(own, framing)]
    assert sum(len(part.starts) for part in found) == 400 * len(block)


def test_an_index_is_kept_if_asked_for_and_not_used_for_other_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "KEPT_BYTES", 100)
    framing, path = Framing(FrameKind.SPANNED), tmp_path / "data"
    records = [b"%04d" % number for number in range(200)]
    path.write_bytes(frame(records, framing))

    def splits(how: Framing = framing) -> list[tuple[int, int, int | None]]:
        files = find_record_files(tmp_path)
        found = plan_record_splits(files, how, 400, SplitSearch.KEPT)
        rows = [len(c.starts) for split in found for c in read_record_split(split, how)]
        assert sum(rows) == len(records) - how.skip_last
        return [(split.start, split.end, split.first) for split in found]

    first = splits()
    index = tmp_path / ".data.records"
    held = index.read_bytes()
    assert len(first) > 4
    assert splits() == first
    assert index.read_bytes() == held
    splits(replace(framing, skip_last=1))
    assert index.read_bytes() != held
    index.write_bytes(b"{}")
    assert splits() == first
    path.write_bytes(b"\0\x0c\0\0\0\x08\0\0abcd" * 200)
    splits()


def test_an_index_that_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(frame([b"abcd"] * 9, Framing(FrameKind.RDW)))
    (tmp_path / ".data.records").mkdir()

    with pytest.raises(StorageError, match=r"cannot be stored: .*splitSearch=index"):
        plan_record_splits(find_record_files(path), Framing(FrameKind.RDW), 20, SplitSearch.KEPT)
    assert sorted(one.name for one in tmp_path.iterdir()) == [".data.records", "data"]


def test_runs_that_keep_an_index_at_once_leave_one_that_is_whole(tmp_path: Path) -> None:
    """Another run's unfinished index stays as it is."""
    framing, path = Framing(FrameKind.RDW), tmp_path / "data"
    path.write_bytes(frame([b"abcd"] * 900, framing))
    other = tmp_path / ".data.records.unfinished"
    other.write_bytes(b"of another run")

    def plan(_: int) -> int:
        return len(plan_record_splits(find_record_files(path), framing, 400, SplitSearch.KEPT))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(plan, range(8)))) == 1
    assert other.read_bytes() == b"of another run"
    assert len(list(tmp_path.iterdir())) == 3
    assert json.loads((tmp_path / ".data.records").read_bytes())["count"] == 900


def test_splits_that_do_not_meet_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(frame([b"abcd"] * 4, Framing(FrameKind.RDW)))
    wrong = RecordSplit(RecordFile(str(path), 32), 8, 17, exact=True)

    with pytest.raises(
        DecodeError, match=r"at byte 17, where the file's next split begins .*byte 16"
    ):
        list(read_record_split(wrong, Framing(FrameKind.RDW)))


def outcome(path: Path, framing: Framing, split: int) -> list[bytes] | None:
    try:
        return read(path, framing, split)
    except DecodeError:
        return None


PACKERS = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": pa.Codec("zstd").compress}


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("kind", KINDS)
def test_compressed_files_are_unpacked(tmp_path: Path, suffix: str, kind: str) -> None:
    records = [b"%04d" % number for number in range(3_000)]
    framing = replace(KINDS[kind], skip_first=1, skip_last=2)
    path = tmp_path / f"data{suffix.upper()}"
    path.write_bytes(packed(suffix, frame(records, framing)))

    (split,) = plan_record_splits(find_record_files(path), framing, 100)

    assert split.start == 0
    for chunk in (1 << 20, 64 << 10, 100, 3):
        assert read(path, framing, chunk=chunk) == records[1:-2]


def packed(suffix: str, data: bytes) -> bytes:
    return bytes(memoryview(PACKERS[suffix](data)))


def test_a_compressed_file_in_two_members_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(b"11112222") + gzip.compress(b"3333"))

    assert read(path, KINDS["fixed"]) == [b"1111", b"2222", b"3333"]


def test_a_damaged_or_unfinished_compressed_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "data.gz"
    path.write_bytes(b"not packed")
    with pytest.raises(StorageError, match=r"the compressed file is damaged.*data\.gz"):
        read(path, KINDS["fixed"])
    path.write_bytes(gzip.compress(random.Random(1).randbytes(4_000))[:-2_000])
    with pytest.raises(StorageError, match=r"damaged: Truncated.*data\.gz"):
        read(path, KINDS["fixed"])
    path.write_bytes(gzip.compress(b"11112"))
    with pytest.raises(TruncatedError, match=r"1 bytes are left over .*data\.gz, byte 4"):
        read(path, KINDS["fixed"])


@pytest.mark.parametrize("name", ["data.zip", "data.xz", "DATA.Z"])
def test_archives_and_other_compressions_are_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"1111")
    for path in (tmp_path / name, tmp_path):
        with pytest.raises(StorageError, match=r"cannot be read .*Unpack it first, or .* \.gz"):
            find_record_files(path)


def test_a_folder_without_files_names_its_subfolders(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"no files of records \(.*names start with"):
        find_record_files(tmp_path)
    for day in range(5):
        (tmp_path / f"dt=2026-01-0{day}").mkdir()
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(
        StorageError, match=r"only folders: dt=2026-01-00, .*, \.\.\. .*/\*\* to search all"
    ):
        find_record_files(tmp_path)
    (tmp_path / "empty").touch()
    assert find_record_files(tmp_path) == ()


def test_header_and_trailer_records_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"first\n2nd-x\nthird\n")

    assert len(read(path, replace(KINDS["line"], skip_first=1, skip_last=1))) == 1
    assert len(read(path, replace(KINDS["line"], skip_first=2, skip_last=2))) == 0


def test_a_folders_files_are_read_by_name(tmp_path: Path) -> None:
    for name, content in (("b", b"3333"), ("a", b"11112222"), (".hidden", b"x"), ("empty", b"")):
        (tmp_path / name).write_bytes(content)

    assert read(tmp_path, KINDS["fixed"]) == [b"1111", b"2222", b"3333"]


def test_what_is_not_there_or_does_not_fit_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"11112")
    with pytest.raises(
        DecodeError, match=r"5 bytes are not a multiple of the record length 4 .*byte 4"
    ):
        read(path, KINDS["fixed"])
    path.write_bytes(b"\0\x06\0\0ab\0\x09\0\0abc")
    with pytest.raises(TruncatedError, match=r"3 bytes are left over|byte 6"):
        read(path, KINDS["rdw"])
    with pytest.raises(StorageError, match="no file or folder"):
        find_record_files(tmp_path / "none")
    missing = RecordFile(str(tmp_path / "none"), 10)
    with pytest.raises(StorageError, match="cannot open"):
        list(read_record_split(plan_record_splits((missing,), KINDS["line"])[0], KINDS["line"]))
