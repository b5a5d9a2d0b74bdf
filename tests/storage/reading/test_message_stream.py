"""A growing folder as a stream: each file once, batches that can be given again, and nothing that is missed unsaid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trailgate.errors import StorageError
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.file_search import ListedFile, find_growing_folder
from trailgate.storage.reading.message_stream import BEGIN, BatchLimit, MessageOffset, MessageStream


class Folder:
    """A folder in memory, to which files are added."""

    def __init__(self, count: int = 0) -> None:
        self.files: list[ListedFile] = []
        self.gone: set[str] = set()
        self.add(count)

    def add(self, count: int) -> None:
        for number in range(len(self.files), len(self.files) + count):
            self.files.append(ListedFile(f"in/m{number:04}", 10 + number, number))

    def stream(self) -> MessageStream:
        return MessageStream(
            lambda: [file for file in self.files if name_of(file.path) not in self.gone]
        )


def taken(stream: MessageStream, start: MessageOffset, end: MessageOffset) -> list[str]:
    return [name_of(file.path) for file in stream.files(start, end)]


@given(
    steps=st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), max_size=8),
    files=st.none() | st.integers(1, 4),
    size=st.none() | st.integers(1, 60),
)
def test_each_file_is_taken_once_however_they_come_and_batches_end(
    steps: list[tuple[int, bool, bool]], files: int | None, size: int | None
) -> None:
    folder, at = Folder(), BEGIN
    stream, found = folder.stream(), list[str]()
    for added, restart, removed in [*steps, *[(0, False, False)] * 50]:
        folder.add(added)
        stream = folder.stream() if restart else stream
        end = stream.latest(at, BatchLimit(files, size))
        assert end == folder.stream().latest(at, BatchLimit(files, size))
        batch = taken(stream, at, end)
        assert batch == taken(
            folder.stream(), at, MessageOffset.read(json.loads(json.dumps(end.json())))
        )
        assert files is None or len(batch) <= files
        found, at = found + batch, end
        if removed:  # what was taken may be archived
            folder.gone |= set(found)
            stream = folder.stream()

    assert found == [f"m{number:04}" for number in range(sum(added for added, _, _ in steps))]


def test_a_stream_of_what_is_available_ends_there() -> None:
    folder = Folder(3)
    stream = folder.stream()
    stream.stop_at_present_end()
    folder.add(2)

    end = stream.latest(BEGIN)

    assert taken(stream, BEGIN, end) == ["m0000", "m0001", "m0002"]
    assert stream.latest(end) == end


def test_a_file_that_comes_too_late_is_an_error_in_one_process() -> None:
    folder = Folder(3)
    stream = folder.stream()
    at = stream.latest(BEGIN)
    del folder.files[0]  # archived
    folder.files.append(ListedFile("in/m0000a", 1, 0))

    with pytest.raises(StorageError, match=r"m0002 was read, which sorts after it \(in/m0000a\)"):
        stream.latest(at)


@pytest.mark.parametrize(
    ("late", "problem"),
    [
        (ListedFile("in/m0000a", 1, 0), "4 files sort up to m0002, but only 3 of them were read"),
        (ListedFile("in/m0000a", 1, 99), "was added or changed after m0002 was read"),
    ],
)
def test_a_file_that_comes_too_late_is_an_error_after_a_restart(
    late: ListedFile, problem: str
) -> None:
    folder = Folder(3)
    at = folder.stream().latest(BEGIN)
    folder.files.append(late)

    with pytest.raises(StorageError, match=problem):
        folder.stream().latest(at)


@pytest.mark.parametrize("change", ["remove", "resize"])
def test_a_batch_whose_files_are_others_now_is_not_given_again(change: str) -> None:
    folder = Folder(3)
    end = folder.stream().latest(BEGIN)
    if change == "remove":
        del folder.files[1]
    else:
        folder.files[1] = folder.files[1]._replace(size=99)

    with pytest.raises(StorageError, match="from the beginning to m0002 had 3 files"):
        folder.stream().files(BEGIN, end)


def test_a_folder_that_is_not_there_yet_has_no_files(tmp_path: Path) -> None:
    assert find_growing_folder(tmp_path / "in") == ()
    (tmp_path / "in").mkdir()
    assert find_growing_folder(tmp_path / "in") == ()
    (tmp_path / "in" / ".hidden").write_text("x")
    (tmp_path / "in" / "one").write_text("x")
    assert [name_of(file.path) for file in find_growing_folder(tmp_path / "in")] == ["one"]
    with pytest.raises(StorageError, match="needs a folder"):
        find_growing_folder(tmp_path / "in" / "one")
