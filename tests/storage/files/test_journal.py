"""The journal: what was stored lasts and has its number; what is given again is recognised; what the trail has is removed."""

from __future__ import annotations

import errno
import json
import os
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import examples
from received_messages import received
from trailgate.errors import BrokerError, StorageError, WriteError
from trailgate.live.files.journal_reader import read_journal_lines
from trailgate.live.files.journal_segments import encode_frame
from trailgate.live.files.journal_writer import Journal, JournalOptions, StoredMessages
from trailgate.model.positions import long_position

SMALL = JournalOptions(segment_bytes=1500, remembered=20)


def strings(parts: list[StoredMessages]) -> list[str]:
    return [body.decode() for part in parts for body in part.messages["body"].to_pylist()]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@given(
    sizes=st.lists(st.integers(1, 5), max_size=12),
    start=st.integers(0, 60),
    empty=st.sets(st.integers(0, 60)),
)
def test_stored_messages_are_read_from_any_number(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], start: int, empty: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("j") / "journal"
    wanted = ["" if i in empty else f"text {i}" for i in range(sum(sizes))]
    ids = [f"id {i}" for i in range(len(wanted))]
    written = []
    with Journal(folder, SMALL) as journal:
        for end, size in zip(accumulate(sizes), sizes, strict=True):
            rows = slice(end - size, end)
            written.append(journal.append(received(wanted[rows], ids[rows])))
        assert journal.next == len(wanted)
    with Journal(folder, SMALL) as journal:
        start = min(start, len(wanted))
        found = list(journal.read(start))

    assert strings(found) == wanted[start:]
    offsets = {
        p.number + i: (p.segment, o) for p in written for i, o in enumerate(p.offsets.tolist())
    }
    for part in found:
        for i, offset in enumerate(part.offsets.tolist()):
            assert offsets[part.number + i] == (part.segment, offset)
    # Ascending, and each once: they identify the messages.
    assert sorted(set(offsets.values())) == list(offsets.values())
    positions = [json.loads(line)["position"] for line in read_journal_lines(folder, start)]
    assert positions == [long_position(*offsets[n]) for n in range(start, len(wanted))]


def test_redelivered_messages_are_skipped_even_after_a_start(tmp_path: Path) -> None:
    with Journal(tmp_path / "j", SMALL) as journal:
        assert strings([journal.append(received(["a", "b", "a"]))]) == ["a", "b"]
        assert strings([journal.append(received(["b", "c"]))]) == ["c"]
    with Journal(tmp_path / "j", SMALL) as journal:
        assert strings([journal.append(received(["a", "c", "d"]))]) == ["d"]
        assert len(journal.append(received(["a"])).messages) == 0
        assert strings(list(journal.read(0))) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("count", "held"), [(0, "no messages before 0"), (1, "messages 0 to 0"), (3, "messages 0 to 2")]
)
def test_a_number_that_is_not_stored_is_an_error(tmp_path: Path, count: int, held: str) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.append(received([str(i) for i in range(count)]))
        with pytest.raises(StorageError, match=rf"message 9 is .*, which has {held} "):
            list(journal.read(9))


def test_segments_go_when_the_trail_has_them_and_their_ids_stay(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    with Journal(folder, SMALL) as journal:
        for i in range(8):
            journal.append(
                received(
                    [f"{i} {n} " + "x" * 400 for n in range(4)], [f"{i} {n}" for n in range(4)]
                )
            )
        journal.release(17)
        assert journal.first == 16
        assert [name for name in files(folder) if name.endswith("ids")] == [
            f"{n:010}.ids" for n in (0, 1, 2, 3)
        ][4 - len([name for name in files(folder) if name.endswith("ids")]) :]
        with pytest.raises(StorageError, match=r"message 15 is .* messages 16 to 31 "):
            next(journal.read(15))
    with Journal(folder, SMALL) as journal:
        assert (journal.first, journal.next) == (16, 32)
        again = journal.append(received(["3 1 " + "x" * 400, "new"], ["3 1", "new"]))
        assert strings([again]) == ["new"]
        journal.release(33)
    with Journal(folder, SMALL) as journal:
        assert journal.next == 33


@pytest.mark.parametrize("cut", [1, 3, 10, 23, 24, 100, 500])
def test_a_write_that_was_interrupted_is_passed_over(tmp_path: Path, cut: int) -> None:
    folder = tmp_path / "j"
    with Journal(folder) as journal:
        journal.append(received(["a", "b"]))
        size = (folder / "0000000000.segment").stat().st_size
        journal.append(received(["c", "d"]))
    os.truncate(folder / "0000000000.segment", size + cut)
    with Journal(folder) as journal:
        assert journal.next == 2
        assert strings([journal.append(received(["c", "e"]))]) == ["c", "e"]
        assert strings(list(journal.read(0))) == ["a", "b", "c", "e"]


def test_damage_inside_is_an_error_and_never_a_loss(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    with Journal(folder) as journal:
        for i in range(3):
            journal.append(received([f"message {i}"]))
    path = folder / "0000000000.segment"
    whole = path.read_bytes()
    third = len(whole) // 3
    for place in range(0, 2 * third, 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(StorageError, match="damaged"):
            Journal(folder)
    path.write_bytes(whole)
    (folder / "0000000002.segment").write_bytes(b"")
    with pytest.raises(StorageError, match="lacks a segment"):
        Journal(folder)


def test_a_full_disk_is_an_error_and_what_was_there_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "j"
    real = os.pwrite

    def full(handle: int, data: memoryview, offset: int) -> int:
        if offset > 300:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle, data[:200], offset)

    with Journal(folder) as journal:
        journal.append(received(["a"]))
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", full)
            with pytest.raises(WriteError, match="No space left"):
                journal.append(received(["b"]))
        assert strings([journal.append(received(["b"]))]) == ["b"]
        assert strings(list(journal.read(0))) == ["a", "b"]
    with Journal(folder) as journal:
        assert strings(list(journal.read(0))) == ["a", "b"]


def test_messages_without_ids_are_refused(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal, pytest.raises(BrokerError, match="have no ids"):
        journal.append(received(["a"], [None]))


def test_one_process_holds_a_journal(tmp_path: Path) -> None:
    with Journal(tmp_path / "j"), pytest.raises(StorageError, match="another run"):
        Journal(tmp_path / "j")


@given(st.binary(max_size=300))
def test_any_bytes_are_a_journal_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("j")
    (folder / "0000000000.segment").write_bytes(data)
    with Journal(folder) as journal:
        assert journal.next == 0


def naive(
    stored: list[tuple[str, str]], window: list[tuple[str, str]], remembered: int
) -> list[tuple[str, str]] | None:
    """Return the messages of a window that are to be stored, None where one has the id of another message."""
    found: list[tuple[str, str]] = []
    known = dict(stored[-remembered:])
    for own, body in window:
        if known.setdefault(own, body) != body:
            return None
        if (own, body) not in stored[-remembered:] + found:
            found.append((own, body))
    return found


PAIRS = st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["x", "y"]))
STEPS = st.lists(
    st.one_of(
        st.lists(PAIRS, min_size=1, max_size=5),
        st.lists(PAIRS.map(lambda pair: (pair[0], pair[0])), min_size=1, max_size=5),
        st.sampled_from(["start", "release"]),
    ),
    max_size=12,
)


@given(STEPS)
@settings(max_examples=examples(60))
def test_every_body_that_is_sent_is_stored_once_or_refused(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[str, str]] | str]
) -> None:
    folder, options = tmp_path_factory.mktemp("j") / "j", JournalOptions(300, remembered=4)
    stored: list[tuple[str, str]] = []
    journal = Journal(folder, options)
    try:
        for step in steps:
            if step == "start":
                journal.close()
                journal = Journal(folder, options)
            elif isinstance(step, str):
                journal.release(journal.next)
            else:
                window = step
                messages = received([body for _, body in window], [own for own, _ in window])
                wanted = naive(stored, window, 4)
                if wanted is None:
                    with pytest.raises(
                        BrokerError, match="was received before with a different body"
                    ):
                        journal.append(messages)
                    continue
                found = journal.append(messages).messages.to_pylist()
                assert [(one["id"], one["body"].decode()) for one in found] == wanted
                stored += wanted
            assert journal.next == len(stored)
    finally:
        journal.close()


def test_ids_of_an_earlier_version_have_no_checksums_and_are_known(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    folder.mkdir()
    ids = pa.RecordBatch.from_arrays([pa.array(["a", "b"])], names=["id"])
    (folder / "0000000000.ids").write_bytes(b"".join(encode_frame(0, ids)))
    with Journal(folder, SMALL) as journal:
        assert journal.next == 2
        assert strings([journal.append(received(["other", "c"], ["a", "c"]))]) == ["c"]
        with pytest.raises(BrokerError, match="c was received before with a different body"):
            journal.append(received(["other"], ["c"]))
        assert journal.next == 3
