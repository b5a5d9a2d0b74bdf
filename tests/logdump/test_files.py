"""Commands about files: open, next, list, save, logs and files of commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from damaged_trails import sample, write_files
from logdump.sessions import answers, offsets, opened, session_in
from logdump.trails import TRAILS, order_records
from trailgate.logdump.conversation import Conversation
from trailgate.logdump.results import (
    CountResult,
    FailureResult,
    ListingResult,
    NoteResult,
    Result,
    ShownHeader,
)
from trailgate.storage.files.trail_files import find_single_file
from trailgate.storage.reading.trail_file import TrailFileReader
from trailgate.trail.records.record import encode_record


def note(results: list[Result]) -> NoteResult:
    """Return the only note among some results."""
    (found,) = (result for result in results if isinstance(result, NoteResult))
    return found


def texts(results: list[Result]) -> str:
    """Return the sentences of all notes among some results."""
    return "\n".join(result.text for result in results if isinstance(result, NoteResult))


def failure(results: list[Result]) -> str:
    (found,) = (result for result in results if isinstance(result, FailureResult))
    return str(found.error)


def saved(session_folder: Path, name: str) -> list[bytes]:
    """Return the records of a saved file, each as bytes."""
    with TrailFileReader(find_single_file(str(session_folder / name))) as reader:
        data, records = reader.records(reader.begin)
        assert records.end == len(data)
        spans = zip(records.offsets.tolist(), records.lengths.tolist(), strict=True)
        return [data[start : start + length].tobytes() for start, length in spans]


def test_nexttrail_opens_the_next_number(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"](), "ot000009")
    (tmp_path / "ot000010").write_bytes(TRAILS["level-0"]())

    assert "NEXTTRAIL opens ot000010" in note(answers(session, "POS EOF", "N")[1:]).text
    results = answers(session, "N 3", "NT", "N")

    assert offsets(results)[-1] == 0
    assert session.trail.path.endswith("ot000010")
    assert "there is no next file" in failure(answers(session, "NT"))
    assert session.is_open


def test_nexttrail_needs_a_number(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"](), "extract")

    assert "does not end in" in failure(answers(session, "NEXTTRAIL"))


def test_a_file_that_cannot_be_opened_leaves_the_open_one(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())

    assert "the file does not exist" in failure(answers(session, "OPEN nowhere"))
    assert offsets(answers(session, "N")) == [583]


def test_records_that_are_written_meanwhile_are_read(tmp_path: Path) -> None:
    raw = TRAILS["orders"]()
    session = opened(tmp_path, raw[:-10])
    results = answers(session, "POS EOF", "POS 1743", "N")
    assert "unfinished" in note(results[2:]).text

    (tmp_path / "ot000000000").write_bytes(raw)

    assert offsets(answers(session, "N")) == []
    assert offsets(answers(session, "POS 0", "POS EOF", "POS 1743", "N")) == [1743]


def test_files_are_listed(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())
    (tmp_path / "sub").mkdir()

    (listing,) = answers(session, "DIR")

    assert isinstance(listing, ListingResult)
    assert [name for name, _ in listing.rows] == ["ot000000000", "sub/"]
    assert "cannot be read" in failure(answers(session, "FILES nowhere"))


def test_paths_are_relative_to_the_folder(tmp_path: Path) -> None:
    (tmp_path / "dirdat").mkdir()
    (tmp_path / "dirdat/ot000000").write_bytes(TRAILS["orders"]())
    session = session_in(tmp_path)

    results = answers(session, "CD dirdat", "OPEN ot000000", "VOLUME")

    assert not [one for one in results if isinstance(one, FailureResult)]
    assert "no such folder" in failure(answers(session, "CD nowhere"))


def test_save_writes_what_the_filters_leave(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())

    results = answers(session, "FILTER RECTYPE 5", "SAVE sv000000001 2 RECORDS")

    whole = [encode_record(record) for record in order_records()]
    assert saved(tmp_path, "sv000000001") == [whole[1], whole[4]]
    assert "Saved 2 records" in results[-1].text  # type: ignore[union-attr]
    assert session.position == 1036


def test_a_saved_file_states_its_own_size(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())
    answers(session, "SAVE sv000000001", "OPEN sv000000001", "FILEHEADER ON")

    (header,) = answers(session, "N")

    assert isinstance(header, ShownHeader)
    assert header.header is not None
    assert header.header.trail.file_size == (tmp_path / "sv000000001").stat().st_size
    assert saved(tmp_path, "sv000000001") == [encode_record(one) for one in order_records()]


def test_save_takes_the_definitions_in_front_along(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["partitioned"]())

    answers(session, "POS 3486", "SAVE sv000000001", "OPEN sv000000001", "SFT INSERT")

    (shown,) = answers(session, "POS 0", "SFT INSERT")[1:]
    assert (shown.name, shown.partition) == ("TKGGU1.T1", "P1")  # type: ignore[union-attr]


def test_save_changes_indicators_and_adds_comments(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())

    answers(session, "POS 630", "SAVE sv000000001 2 RECORDS TRANSIND ONLY COMMENT")
    answers(session, "OPEN sv000000001")

    shown = [one.record for one in answers(session, "N 9")[:-1]]  # type: ignore[union-attr]
    assert [record.io_type for record in shown] == [205, 5, 15, 205]
    assert [record.trans_ind for record in shown] == [3, 3, 3, 3]


@pytest.mark.parametrize(("typed", "count"), [("31 BYTES", 2), ("30 BYTES", 1), ("0 BYTES", 0)])
def test_save_stops_at_so_many_bytes(typed: str, count: int, tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())

    answers(session, "POS 630", f"SAVE sv000000001 {typed}")

    assert len(saved(tmp_path, "sv000000001")) == count


def test_save_replaces_a_file_only_on_request(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())
    answers(session, "SAVE sv000000001 1 RECORDS")

    assert "exists already" in failure(answers(session, "POS 0", "SAVE sv000000001 2 RECORDS"))
    assert len(saved(tmp_path, "sv000000001")) == 1
    answers(session, "POS 0", "SAVE sv000000001! 2 RECORDS")
    assert len(saved(tmp_path, "sv000000001")) == 2
    assert "into itself" in failure(answers(session, "SAVE ot000000000 !"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ot000000000", "sv000000001"]


@pytest.mark.parametrize(
    "typed", ["", "SAVE", "f 1 SACKS", "f OLDFORMAT", "f EXT", "f MEGABYTES 5", "f TRANSIND x"]
)
def test_a_wrong_save_writes_nothing(typed: str, tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())

    results = answers(session, f"SAVE {typed}" if typed != "SAVE" else "SAVE")

    assert isinstance(results[-1], FailureResult)
    assert [path.name for path in tmp_path.iterdir()] == ["ot000000000"]


def test_a_save_that_meets_damage_leaves_no_file(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["damaged"]())

    assert "must begin" in failure(answers(session, "SAVE sv000000001"))
    assert [path.name for path in tmp_path.iterdir()] == ["ot000000000"]


def test_a_file_of_commands_is_run(tmp_path: Path) -> None:
    (tmp_path / "view.txt").write_text("-- a remark\nGHDR ON\n\nNOSUCH\nN\n")
    session = opened(tmp_path, TRAILS["orders"]())

    results = answers(session, "OBEY view.txt")

    assert offsets(results) == [583]
    assert len([one for one in results if isinstance(one, FailureResult)]) == 1


def test_files_of_commands_that_call_each_other_end(tmp_path: Path) -> None:
    (tmp_path / "view.txt").write_text("OBEY view.txt\n")
    session = session_in(tmp_path)

    assert "deep" in failure(answers(session, "OBEY view.txt"))


def test_the_log_holds_what_is_typed_and_printed(tmp_path: Path) -> None:
    talk = Conversation(lambda: session_in(tmp_path).now())
    talk.session.folder = str(tmp_path)
    for line in ("LOG TO log.txt", "GHDR ON", 'WRITELOG "a remark"', "LOG STOP", "GHDR OFF"):
        list(talk.answer(line))

    text = (tmp_path / "log.txt").read_text()

    assert "Logdump 2 >GHDR ON\nGhdr set to On\n" in text
    assert "a remark\n" in text
    assert "OFF" not in text
    assert "no log" in "".join(talk.answer("WRITELOG x"))
    assert "no log" in "".join(talk.answer("LOG STOP"))


def test_count_goes_through_many_files(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"](), "ot000000000")
    (tmp_path / "ot000000001").write_bytes(TRAILS["damaged"]())
    (tmp_path / "OT000000002").write_bytes(b"")

    results = answers(session, "COUNT LOG ot*")

    counts = [one for one in results if isinstance(one, CountResult)]
    assert [one.total.records for one in counts] == [13, 5]
    assert isinstance(results[-1], FailureResult)
    assert "no files" in failure(answers(session, "COUNT LOG nothing*"))


@pytest.mark.parametrize(
    ("added", "sentence"),
    [(-50, "50 fewer than its header states"), (50, "50 more than its header states")],
)
def test_a_file_of_another_size_than_it_states_is_noted(
    tmp_path: Path, added: int, sentence: str
) -> None:
    write_files(tmp_path / "ot", sample()[:1])
    path = tmp_path / "ot000000000"
    raw = path.read_bytes()
    assert "states" not in texts(answers(session_in(tmp_path), "OPEN ot000000000", "COUNT"))
    path.write_bytes(raw[:added] if added < 0 else raw + raw[-added:])
    path.rename(tmp_path / "ot000000001")
    (tmp_path / "ot000000000").write_bytes(raw)
    session = session_in(tmp_path)

    assert "states" not in texts(answers(session, "OPEN ot000000000"))
    for command in ("NEXTTRAIL", "OPEN ot000000001", "COUNT", "OPEN", "COUNT LOG ot000000001"):
        told = texts(answers(session, command))
        assert sentence in told
        assert f"trailgate check {tmp_path}/ot000000001 lists the damage" in told


def test_an_empty_file_is_noted(tmp_path: Path) -> None:
    (tmp_path / "ot000000000").write_bytes(b"")

    told = texts(answers(session_in(tmp_path), "OPEN ot000000000"))

    assert "ot000000000 is empty: its writer has not begun it yet" in told
