"""However messages lie in files and wherever reading begins, each is read once and whole."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.errors import DecodeError, StorageError
from trailgate.storage.reading.message_files import (
    LEAST_BYTES,
    MESSAGE_SPLIT_BYTES,
    SHARED,
    START,
    MessageFile,
    MessageFiles,
    find_messages,
    plan_ranges,
    read_messages,
)
from trailgate.storage.reading.message_lines import MessagePosition

Found = list[tuple[MessagePosition, bytes]]


def read(source: MessageFiles, start: MessagePosition = START, chunk: int = 64) -> Found:
    return [
        (
            MessagePosition(int(batch.files[i]), int(batch.offsets[i])),
            bytes(batch.data[int(batch.starts[i]) : int(batch.ends[i])]),
        )
        for batch, _ in read_messages(source, start, chunk)
        for i in range(len(batch))
    ]


def test_files_are_messages_in_name_order(tmp_path: Path) -> None:
    for name, body in (("b", b"2\n"), ("a", b"1\n"), (".hidden", b"x"), ("c", b"3\n")):
        (tmp_path / name).write_bytes(body)
    found = read(find_messages(tmp_path))
    assert found == [((0, 0), b"1\n"), ((1, 0), b"2\n"), ((2, 0), b"3\n")]


@given(
    st.lists(st.lists(st.binary(max_size=12), max_size=8), min_size=1, max_size=4),
    st.integers(1, 40),
    st.integers(1, 30),
)
def test_ranges_hold_each_line_once(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[bytes]], split: int, chunk: int
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    expected: Found = []
    for number, lines in enumerate(files):
        data = b"\n".join(lines)
        (folder / f"f{number}").write_bytes(data)
        offset = 0
        for line in data.split(b"\n"):
            body = line.removesuffix(b"\r") if line != b"\r" else b""
            if body:
                expected.append((MessagePosition(number, offset), body))
            offset += len(line) + 1
    source = find_messages(folder, per_line=True)
    ranges = plan_ranges(source, split)
    assert ranges[0].start == (0, 0)
    assert ranges[-1].end == source.end
    assert all(one.end == other.start for one, other in pairwise(ranges))
    together = [
        (place, body)
        for part in ranges
        for place, body in read(source, part.start, chunk)
        if place < part.end
    ]
    assert together == read(source, chunk=chunk) == expected


def test_small_files_share_a_range(tmp_path: Path) -> None:
    for number in range(100):
        (tmp_path / f"m{number:03}").write_bytes(b"x" * 10)
    assert len(plan_ranges(find_messages(tmp_path), 100)) == 10
    assert len(plan_ranges(find_messages(tmp_path))) == 1


def test_json_lines_carry_headers(tmp_path: Path) -> None:
    lines = [
        {"body": "ä", "headers": {"A": "1", "N": 2}},
        {"body_base64": "/w==", "reason": "other keys are ignored"},
    ]
    path = tmp_path / "in.JSONL"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    ((batch, problems),) = read_messages(find_messages(path))
    assert batch.headers == ({"A": "1", "N": "2"}, {})
    assert [body for _, body in read(find_messages(path))] == ["ä".encode(), b"\xff"]
    assert not problems


@pytest.mark.parametrize("line", ["x", "[]", "{}", '{"body": 1}', '{"body": "", "headers": [1]}'])
def test_a_bad_json_line_is_a_problem_with_its_place(tmp_path: Path, line: str) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text('{"body": "good"}\n' + line + "\n")
    ((batch, (problem,)),) = read_messages(find_messages(path))
    assert (len(batch), problem.message) == (2, 1)
    assert (problem.error.where.source, problem.error.where.offset) == (str(path), 17)
    assert problem.error.where.raw == line.encode()


def test_a_message_longer_than_the_limit_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"x" * 1000)
    for per_line in (False, True):
        with pytest.raises(DecodeError, match="longer than 100 bytes"):
            read(find_messages(path, per_line, longest=100))


def test_an_empty_input_is_reported(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(StorageError):
            find_messages(path)


@pytest.mark.parametrize("sizes", [[200_000], [90_000, 20_000, 90_000], [1] * 5 + [199_995]])
def test_ranges_are_of_one_size(tmp_path: Path, sizes: list[int]) -> None:
    for number, size in enumerate(sizes):
        (tmp_path / f"f{number}").write_bytes(b"x\n" * (size // 2) + b"x" * (size % 2))
    files = find_messages(tmp_path, per_line=True)

    ranges = plan_ranges(files, 134_000)

    before = [0, *accumulate(sizes)]
    ends = [before[own.end.file] + own.end.offset for own in ranges]
    assert ends == [100_000, 200_000]


@pytest.mark.parametrize(
    ("size", "count"),
    [
        (1, 1),
        (LEAST_BYTES, 1),
        (LEAST_BYTES + 1, 2),
        (SHARED * LEAST_BYTES, SHARED),
        (MESSAGE_SPLIT_BYTES, SHARED),
        (SHARED * MESSAGE_SPLIT_BYTES, SHARED),
        (SHARED * MESSAGE_SPLIT_BYTES + 1, SHARED + 1),
    ],
)
def test_a_few_cores_share_input_that_is_not_large(size: int, count: int) -> None:
    assert len(plan_ranges(MessageFiles((MessageFile("m", size),), per_line=True))) == count


CODECS = {"gzip": ".gz", "zstd": ".zst", "bz2": ".bz2", "lz4": ".lz4"}


@given(
    st.lists(st.binary(max_size=30), max_size=30),
    st.sampled_from(sorted(CODECS)),
    st.booleans(),
    st.integers(1, 60),
)
def test_compressed_files_are_read_as_what_they_hold(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[bytes],
    codec: str,
    per_line: bool,
    chunk: int,
) -> None:
    folder = tmp_path_factory.mktemp("compressed")
    data = b"\n".join(lines)
    (folder / "plain").write_bytes(data)
    packed = folder / f"packed{CODECS[codec]}"
    with pa.output_stream(packed, compression=codec) as stream:
        stream.write(data)
    expected = read(find_messages(folder / "plain", per_line), START, chunk)
    source = find_messages(packed, per_line)

    assert read(source, START, chunk) == expected
    for place, _ in expected:  # also from each message on
        assert read(source, place, chunk) == [one for one in expected if one[0] >= place]
    assert len(plan_ranges(source, split_bytes=1)) == 1


def test_compressed_json_lines_are_json_lines(tmp_path: Path) -> None:
    with pa.output_stream(tmp_path / "a.JSONL.gz", compression="gzip") as stream:
        stream.write(b'{"body": "x"}\n{"body": "y"}\n')

    assert [body for _, body in read(find_messages(tmp_path))] == [b"x", b"y"]


def test_a_compressed_message_longer_than_the_limit_is_reported(tmp_path: Path) -> None:
    with pa.output_stream(tmp_path / "a.gz", compression="gzip") as stream:
        stream.write(b"x" * 1000)

    assert len(read(find_messages(tmp_path, longest=1000))) == 1
    with pytest.raises(DecodeError, match="longer than 999 bytes"):
        read(find_messages(tmp_path, longest=999))


@pytest.mark.parametrize("per_line", [False, True])
def test_a_damaged_compressed_file_is_reported(tmp_path: Path, per_line: bool) -> None:
    with pa.output_stream(tmp_path / "a.gz", compression="gzip") as stream:
        stream.write(b"some text\n" * 1000)
    file = tmp_path / "a.gz"
    file.write_bytes(file.read_bytes()[:-20])

    with pytest.raises(StorageError, match="damaged"):
        read(find_messages(file, per_line))


def test_folders_below_are_searched_if_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a.csv", "x/b.csv", "x/y/c.csv", "x/.hidden/d.csv", "z/e.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)

    def bodies(pattern: str) -> list[str]:
        return [body.decode() for _, body in read(find_messages(f"{tmp_path}/{pattern}"))]

    assert bodies("**") == ["a.csv", "x/b.csv", "x/y/c.csv", "z/e.txt"]
    assert bodies("**/*.csv") == ["a.csv", "x/b.csv", "x/y/c.csv"]
    assert bodies("x/**/c.csv") == ["x/y/c.csv"]
    assert caplog.text == ""
    assert bodies("") == ["a.csv"]
    assert "folders in it are not searched: x, z" in caplog.text


def test_a_circle_of_folders_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").symlink_to(tmp_path)

    with pytest.raises(StorageError, match="more than 32 deep"):
        find_messages(f"{tmp_path}/**")
