"""Promises about the lines of a file that contain some bytes: all of them are found, with their numbers, however chunks cut the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from laws import chance, examples
from trailgate.storage.reading import message_files
from trailgate.storage.reading.message_files import MessageFile, read_file_lines


@pytest.mark.parametrize("having", [b"", b"x", b"seldom"])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_lines_that_contain_some_bytes_have_their_numbers(
    having: bytes, end: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = chance(f"lines {having!r} {end!r}")
    for number in range(examples(20)):
        monkeypatch.setattr(message_files, "CHUNK", own.randint(8, 60))
        words = [b"", b"ab", b"x", b"axb", b"seldom" if own.random() < 0.1 else b"often"]
        lines = [own.choice(words) + b"." * own.randint(0, 9) for _ in range(own.randint(1, 60))]
        path = tmp_path / str(number)
        path.write_bytes(b"\n".join([*lines[:-1], lines[-1] or b"last"]) + end)
        lines[-1] = lines[-1] or b"last"
        found = list(read_file_lines(MessageFile(str(path), path.stat().st_size), having=having))

        assert found == [(at, line) for at, line in enumerate(lines, 1) if having in line]


@pytest.mark.parametrize("chunk", [3, 8, 100])
@pytest.mark.parametrize(("begin", "expected"), [(0, 1), (4, 2), (3, 2), (8, 3), (12, 5)])
def test_lines_before_the_begin_of_a_file_are_counted_alone(
    begin: int, expected: int, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_files, "CHUNK", chunk)
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\nsix\n")
    numbers = [number for number, _ in read_file_lines(MessageFile(str(path), 12, begin=begin))]

    assert numbers == [*range(expected, 4)]
