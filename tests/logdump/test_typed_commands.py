"""Promises about commands as people type them: commas after the name, directions of reading, and files beside a trail."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdump.sessions import answers, offsets, opened, session_in
from logdump.trails import TRAILS
from trailgate.logdump.results import CountResult, FailureResult, NoteResult


@pytest.mark.parametrize(
    "typed",
    [
        "COUNT, DETAIL", "COUNT,DETAIL", "COUNT ,DETAIL", "COUNT , DETAIL", "count,detail", "COUNT,  DETAIL",
        "COUNT, START 2000-01-05 10:02:00", "COUNT,START 2000-01-05 10:02:00", "COUNT, START 2000-01-05, END 2100-01-01 10:02:00",
        "COUNT, FILE *", "COUNT,FILE *,DETAIL", "COUNT, INTERVAL 5", "COUNT, LOG ot*", "COUNT,",
    ],
)  # fmt: skip
def test_a_comma_after_a_command_is_as_good_as_a_blank(tmp_path: Path, typed: str) -> None:
    raw = TRAILS["orders"]()
    plain = " ".join(typed.replace(",", " ").split())
    session, other = opened(tmp_path, raw), opened(tmp_path, raw)

    assert answers(session, typed) == answers(other, plain)
    assert not any(isinstance(found, FailureResult) for found in answers(session, typed))


def test_the_direction_of_reading_is_a_command_too(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"]())
    forward = offsets(answers(session, "N 3"))

    backward = offsets(answers(session, "POS EOF", "REVERSE", "N 100"))
    again = offsets(answers(session, "POS FIRST", "FORWARD", "N 3"))

    assert backward == sorted(backward, reverse=True)
    assert set(forward) <= set(backward)
    assert again == forward
    assert isinstance(answers(session, "REVERSE 5")[0], FailureResult)


def test_files_beside_a_trail_are_not_counted_as_trails(tmp_path: Path) -> None:
    raw = TRAILS["orders"]()
    session = opened(tmp_path, raw, "bk000000000")
    (tmp_path / "bk000000001").write_bytes(raw)
    for name in ("bk.def", "bk.json", "bk.quarantine.jsonl", "bk.lock"):
        (tmp_path / name).write_text("*+- Defgen")

    found = answers(session, "COUNT LOG bk*")

    (note,) = [result for result in found if isinstance(result, NoteResult)]
    counts = [result for result in found if isinstance(result, CountResult)]
    assert [Path(one.path).name for one in counts] == ["bk000000000", "bk000000001"]
    assert "bk.def, bk.json, bk.lock, bk.quarantine.jsonl" in str(note)
    assert not any(isinstance(result, FailureResult) for result in found)


def test_a_file_of_another_name_is_counted_when_it_is_named(tmp_path: Path) -> None:
    session = opened(tmp_path, TRAILS["orders"](), "ot000000000")
    (tmp_path / "saved.bin").write_bytes(TRAILS["orders"]())

    (counts,) = answers(session, "COUNT LOG saved.*")

    assert isinstance(counts, CountResult)


@pytest.mark.parametrize(
    "typed",
    ["SKIP 0", "SKIP 0 FILTER", "N 0", "DUMP 0", "SAVE saved 0 RECORDS", "SAVE saved 0 BYTES"],
)
@pytest.mark.parametrize("direction", ["FORWARD", "REVERSE"])
def test_a_count_of_0_does_not_move(tmp_path: Path, typed: str, direction: str) -> None:
    session = opened(tmp_path, TRAILS["orders"]())
    answers(session, "N 3", direction)
    before = session.position

    results = answers(session, typed)

    assert session.position == before
    assert not offsets(results)
    assert not any(isinstance(result, FailureResult) for result in results)


@pytest.mark.parametrize("typed", ["FC 0", "!0", "! -0"])
@pytest.mark.parametrize("earlier", [(), ("TIME",)])
def test_no_earlier_command_has_the_number_0(
    tmp_path: Path, typed: str, earlier: tuple[str, ...]
) -> None:
    (*_, failure) = answers(session_in(tmp_path), *earlier, typed)

    assert isinstance(failure, FailureResult)
    assert "no earlier command has the number" in str(failure.error)
